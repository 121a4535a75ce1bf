//! Configurations that are refused at the start, each with its part and the remedy.
//!
//! Neighbours: `tests/simulated/tls` has sessions; `tests/certificates` has the files.

use super::{TlsClients, TlsConfig, TlsPart, TlsPem};

macro_rules! pem {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/certificates/", $name))
    };
}

fn refusal(certificates: &[u8], key: &[u8], authorities: Option<&[u8]>) -> Option<(TlsPart, String)> {
    let clients = TlsClients::Required;
    let pem = TlsPem { certificates, key, client_authorities: authorities, clients };
    TlsConfig::from_pem(&pem).err().map(|error| (error.part, error.to_string()))
}

#[test]
fn each_kind_of_key_is_taken_with_its_certificate() {
    for (certificate, key) in [
        (&pem!("server.pem")[..], &pem!("server.key")[..]),
        (pem!("server-rsa.pem"), pem!("server-rsa.key")),
        (pem!("server-ecdsa.pem"), pem!("server-ecdsa.key")),
    ] {
        assert_eq!(refusal(certificate, key, None), None);
        assert_eq!(refusal(certificate, key, Some(pem!("authority.pem"))), None);
    }
}

/// Certificates, key, authorities; the wrong part, and a part of the reason.
type WrongFiles<'f> = (&'f [u8], &'f [u8], Option<&'f [u8]>, TlsPart, &'f str);

#[test]
fn wrong_files_are_refused_with_their_part_and_a_remedy() {
    let (certificate, key) = (&pem!("server.pem")[..], &pem!("server.key")[..]);
    let cases: [WrongFiles<'_>; 10] = [
        (b"", key, None, TlsPart::Certificates, "no certificate: give a file"),
        (key, key, None, TlsPart::Certificates, "no certificate: give a file"),
        (b"-----BEGIN CERTIFICATE-----\n?", key, None, TlsPart::Certificates, "no PEM form"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            key,
            None,
            TlsPart::Certificates,
            "give a certificate of X.509, version 3",
        ),
        (pem!("expired.pem"), key, None, TlsPart::Certificates, "renew the certificate"),
        (certificate, b"", None, TlsPart::Key, "no key: give a file"),
        (certificate, certificate, None, TlsPart::Key, "no key: give a file"),
        (certificate, pem!("encrypted.key"), None, TlsPart::Key, "the key has a password"),
        (certificate, pem!("client.key"), None, TlsPart::Key, "the key is of another certificate"),
        (certificate, key, Some(b""), TlsPart::ClientAuthorities, "no certificate: give a file"),
    ];
    for (number, (certificate, key, authorities, part, reason)) in cases.into_iter().enumerate() {
        let (found, told) = refusal(certificate, key, authorities).expect("it is refused");
        assert_eq!(found, part, "case {number}: {told}");
        assert!(told.contains(reason), "case {number}: {told}");
    }
}
