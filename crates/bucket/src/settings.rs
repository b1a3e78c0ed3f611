// SPDX-License-Identifier: Apache-2.0 OR MIT
//! Credentials, region and endpoint as the tools of AWS find them: in the environment, else in the profile's sections of
//! ~/.aws/credentials and ~/.aws/config (AWS SDKs and Tools Reference Guide, "Settings reference").

use anyhow::{bail, Context, Result};
use rusty_s3::Credentials;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What stands in no address of a bucket.
#[derive(Debug)]
pub struct Settings {
    pub credentials: Credentials,
    pub region: String,
    /// Of a server that is not Amazon's: `http://127.0.0.1:8333`.
    pub endpoint: Option<String>,
    /// A file of certificates that the server's must be signed by, in place of the system's.
    pub certificates: Option<PathBuf>,
}

impl Settings {
    /// `variable` gives the value of an environment variable.
    ///
    /// # Errors
    /// There are no credentials, or a file that may have them cannot be read.
    pub fn new(variable: &dyn Fn(&str) -> Option<String>) -> Result<Self> {
        let get = |name: &str| variable(name).filter(|value| !value.is_empty());
        // Without HOME there are none: not what lies in the directory that this runs in.
        let home = get("HOME").map(|home| PathBuf::from(home).join(".aws"));
        let file = |name: &str, usual: &str| {
            get(name).map(PathBuf::from).or_else(|| home.as_ref().map(|home| home.join(usual)))
        };
        let named = get("AWS_PROFILE").or_else(|| get("AWS_DEFAULT_PROFILE"));
        let profile = named.clone().unwrap_or_else(|| "default".to_owned());
        let of_config = match profile.as_str() {
            "default" => vec!["default".to_owned(), "profile default".to_owned()],
            name => vec![format!("profile {name}")],
        };
        let credentials_file = file("AWS_SHARED_CREDENTIALS_FILE", "credentials");
        let secrets = Section::of(credentials_file.as_deref(), &[profile]);
        let config = Section::of(file("AWS_CONFIG_FILE", "config").as_deref(), &of_config);
        let kept = |name: &str| {
            [&secrets, &config].into_iter().filter_map(|section| section.as_ref().ok()?.get(name)).next()
        };

        let own = get("AWS_ACCESS_KEY_ID").zip(get("AWS_SECRET_ACCESS_KEY"));
        let (pair, token) = match own {
            // A profile's token belongs to the profile's key.
            Some(pair) => (Some(pair), get("AWS_SESSION_TOKEN")),
            None => (kept("aws_access_key_id").zip(kept("aws_secret_access_key")), kept("aws_session_token")),
        };
        let Some((key, secret)) = pair else {
            secrets?;
            config?;
            let of = named.map_or_else(String::new, |name| format!(" for the profile '{name}'"));
            let place = credentials_file
                .map_or("~/.aws/credentials (HOME is not set)".to_owned(), |path| path.display().to_string());
            bail!(
                "there are no credentials for S3{of}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or have them \
                 in {place} (roles of an instance and credential processes are not asked)"
            );
        };
        let region = get("AWS_REGION").or_else(|| get("AWS_DEFAULT_REGION")).or_else(|| kept("region"));
        Ok(Self {
            credentials: match token {
                Some(token) => Credentials::new_with_token(key, secret, token),
                None => Credentials::new(key, secret),
            },
            region: region.unwrap_or_else(|| "us-east-1".to_owned()),
            endpoint: get("AWS_ENDPOINT_URL_S3")
                .or_else(|| get("AWS_ENDPOINT_URL"))
                .or_else(|| kept("endpoint_url")),
            certificates: get("AWS_CA_BUNDLE").or_else(|| get("SSL_CERT_FILE")).map(PathBuf::from),
        })
    }
}

/// Keys and values of a profile.
struct Section(Vec<(String, String)>);

impl Section {
    /// Those of a file's sections with one of these names; none where there is no file.
    fn of(path: Option<&Path>, names: &[String]) -> Result<Self> {
        let Some(path) = path else { return Ok(Self(Vec::new())) };
        let text = match std::fs::read_to_string(path) {
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                String::new()
            }
            text => text.with_context(|| path.display().to_string())?,
        };
        let (mut out, mut ours) = (Vec::new(), false);
        for line in text.lines() {
            let trimmed = line.trim();
            if let Some(name) = trimmed.strip_prefix('[').and_then(|l| l.split(']').next()) {
                let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
                ours = names.contains(&name);
            } else if ours && !trimmed.starts_with(['#', ';']) && !line.starts_with([' ', '\t']) {
                // An indented line belongs to the setting above it, of one service alone.
                if let Some((key, value)) = trimmed.split_once('=') {
                    out.push((key.trim().to_lowercase(), value.trim().to_owned()));
                }
            }
        }
        Ok(Self(out))
    }

    fn get(&self, key: &str) -> Option<String> {
        self.0.iter().find(|(k, v)| k == key && !v.is_empty()).map(|(_, value)| value.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(all: &[(&str, &str)]) -> Result<Settings, String> {
        let get = |name: &str| all.iter().find(|(n, _)| *n == name).map(|(_, v)| (*v).to_owned());
        Settings::new(&get).map_err(|e| format!("{e:#}"))
    }

    #[test]
    fn the_environment_wins_over_the_profile_and_a_token_stays_with_its_key() {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name).display().to_string();
        let secrets = "[default]\naws_access_key_id = A\naws_secret_access_key=B\n\n# no\n[work]\naws_access_key_id=C\n\
                       aws_secret_access_key=D\naws_session_token=E\n";
        let config = "[default]\nregion=eu-west-1\ns3 =\n  endpoint_url = http://nested\n[profile work]\nregion = eu-north-1\n\
                      endpoint_url = http://work:1\n";
        std::fs::write(at("credentials"), secrets).expect("written");
        std::fs::write(at("config"), config).expect("written");
        let files = [at("credentials"), at("config")];
        let files = [("AWS_SHARED_CREDENTIALS_FILE", &*files[0]), ("AWS_CONFIG_FILE", &*files[1])];
        let with =
            |more: &[(&'static str, &'static str)]| settings(&[&files[..], more].concat()).expect("settings");

        let usual = with(&[]);
        assert_eq!((usual.credentials.key(), usual.credentials.secret()), ("A", "B"));
        assert_eq!((usual.credentials.token(), usual.region.as_str()), (None, "eu-west-1"));
        assert_eq!(usual.endpoint, None, "an indented line is another setting's");
        let work = with(&[("AWS_PROFILE", "work")]);
        assert_eq!((work.credentials.key(), work.credentials.token()), ("C", Some("E")));
        assert_eq!((work.region.as_str(), work.endpoint.as_deref()), ("eu-north-1", Some("http://work:1")));
        let own = [("AWS_PROFILE", "work"), ("AWS_ACCESS_KEY_ID", "X"), ("AWS_SECRET_ACCESS_KEY", "Y")];
        let own = with(
            &[&own[..], &[("AWS_DEFAULT_REGION", "here"), ("AWS_ENDPOINT_URL", "http://other")]].concat(),
        );
        assert_eq!((own.credentials.key(), own.credentials.token()), ("X", None));
        assert_eq!((own.region.as_str(), own.endpoint.as_deref()), ("here", Some("http://other")));
    }

    #[test]
    fn where_there_are_no_credentials_it_says_where_they_are_looked_for() {
        let error = settings(&[("HOME", "/nowhere"), ("AWS_PROFILE", "x")]).expect_err("none");
        assert!(error.contains("the profile 'x'") && error.contains("/nowhere/.aws/credentials"), "{error}");
        let error = settings(&[]).expect_err("none");
        assert!(error.contains("HOME is not set"), "{error}");
        // Half a pair is none, and an empty word neither.
        assert!(settings(&[("AWS_ACCESS_KEY_ID", "A"), ("AWS_SECRET_ACCESS_KEY", "")]).is_err());
    }
}
