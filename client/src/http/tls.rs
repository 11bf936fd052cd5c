//! TLS for `https`: rustls with ring, and the operating system's roots.

use super::client::HttpError;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use std::sync::Arc;
use tokio::net::TcpStream;
use tokio::sync::OnceCell;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

/// A root certificate that is trusted.
pub(super) type Root = CertificateDer<'static>;

/// Reads certificates from PEM.
pub(super) fn roots(pem: &[u8]) -> Result<Vec<Root>, HttpError> {
    let unreadable = |why: &dyn std::fmt::Display| HttpError::Other(format!("root certificates: {why}"));
    let roots: Vec<Root> =
        CertificateDer::pem_slice_iter(pem).collect::<Result<_, _>>().map_err(|e| unreadable(&e))?;
    match roots.is_empty() {
        true => Err(unreadable(&"the PEM text holds none")),
        false => Ok(roots),
    }
}

/// What TLS connections are made with, read from the system when the first one is.
#[derive(Default)]
pub(super) struct Tls {
    own_roots: Vec<Root>,
    connector: OnceCell<TlsConnector>,
}

impl Tls {
    /// Trusts these roots as well.
    pub(super) const fn with_roots(own_roots: Vec<Root>) -> Self {
        Self { own_roots, connector: OnceCell::const_new() }
    }

    /// Shakes hands with the server of this name.
    pub(super) async fn wrap(
        &self,
        host: &str,
        stream: TcpStream,
    ) -> Result<TlsStream<TcpStream>, HttpError> {
        let connector = self.connector.get_or_try_init(|| self.set_up()).await?;
        let name = ServerName::try_from(host.to_owned())
            .map_err(|_| HttpError::Connect(format!("`{host}` can be no name in a certificate")))?;
        connector.connect(name, stream).await.map_err(|error| HttpError::Connect(format!("TLS: {error}")))
    }

    async fn set_up(&self) -> Result<TlsConnector, HttpError> {
        let failed = |why: &dyn std::fmt::Display| HttpError::Connect(format!("TLS: {why}"));
        // The certificates are files, many of them on some systems.
        let system = tokio::task::spawn_blocking(rustls_native_certs::load_native_certs);
        let system = system.await.map_err(|error| failed(&error))?;
        let mut roots = RootCertStore::empty();
        let (good, _) = roots.add_parsable_certificates(system.certs);
        for root in &self.own_roots {
            roots.add(root.clone()).map_err(|error| failed(&error))?;
        }
        if good == 0 && self.own_roots.is_empty() {
            let why = system.errors.first().map(|error| format!(": {error}")).unwrap_or_default();
            return Err(failed(&format!(
                "the system has no root certificates{why} (SSL_CERT_FILE can name a file of them)"
            )));
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| failed(&error))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        Ok(TlsConnector::from(Arc::new(config)))
    }
}
