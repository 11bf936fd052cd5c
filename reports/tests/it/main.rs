//! Tests of the reports from outside: one binary, so that it links once. The attributes tell clippy that helpers of tests
//! are tests too.

#[cfg(test)]
mod conclusion;
#[cfg(test)]
mod json;
#[cfg(test)]
mod junit;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod summary;
