//! What a host keeps on disk.
//!
//! Whatever is damaged is noticed, set aside beside the place where it was, and begun anew; nothing here panics on what
//! it reads. A process that is killed at any moment leaves files behind that are whole.

pub mod cache;
pub mod credentials;
mod damage;
pub mod disk;
#[cfg(feature = "keychain")]
pub mod keychain;
mod locks;
