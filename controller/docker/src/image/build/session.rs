//! The session of a build: the services that the engine calls during the build. It requests credentials of registries, the folders of the
//! build, secrets, and the SSH agent.

use std::collections::{BTreeMap, HashMap};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use bollard::auth::DockerCredentials;
use bollard_buildkit_proto::health::health_check_response::ServingStatus;
use bollard_buildkit_proto::health::health_server::{Health, HealthServer};
use bollard_buildkit_proto::health::{
    HealthCheckRequest, HealthCheckResponse, HealthListRequest, HealthListResponse,
};
use bollard_buildkit_proto::moby::buildkit::secrets::v1::secrets_server::{Secrets, SecretsServer};
use bollard_buildkit_proto::moby::buildkit::secrets::v1::{GetSecretRequest, GetSecretResponse};
use bollard_buildkit_proto::moby::filesync::v1 as filesync;
use bollard_buildkit_proto::moby::filesync::v1::auth_server::{Auth, AuthServer};
use bollard_buildkit_proto::moby::sshforward::v1 as sshforward;
use bollard_buildkit_proto::moby::sshforward::v1::ssh_server::{Ssh, SshServer};
use bollard_buildkit_proto::moby::upload::v1::BytesMessage;
use bollard_buildkit_proto::moby::upload::v1::upload_server::{Upload, UploadServer};
use bytes::Bytes;
use futures::stream::{self, BoxStream, StreamExt as _};
use hyper::rt::{Read, Write};
use hyper::server::conn::http2;
use hyper_util::rt::TokioExecutor;
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tonic::service::Routes;
use tonic::{Request, Response, Status, Streaming};

/// Id of the only SSH agent.
const DEFAULT_AGENT: &str = "default";
/// Size of the parts in which the messages of the SSH agent are sent, in bytes.
const AGENT_BUFFER: usize = 16 * 1024;

/// Methods that the engine may call, as it requests them at the start of the session.
const METHODS: [&str; 5] = [
    "/moby.filesync.v1.Auth/credentials",
    "/moby.upload.v1.Upload/pull",
    "/moby.buildkit.secrets.v1.Secrets/GetSecret",
    "/moby.sshforward.v1.SSH/CheckAgent",
    "/moby.sshforward.v1.SSH/ForwardAgent",
];

/// Content of a folder as a tar.
pub(super) type Packed = BoxStream<'static, io::Result<Bytes>>;

/// Answers of a session. It has no `Debug`, because it contains secrets.
#[derive(Default)]
pub(super) struct Session {
    /// Name, which is unique on the engine.
    pub(super) name: String,
    /// Credentials by the host of a registry.
    pub(super) credentials: HashMap<String, DockerCredentials>,
    /// Secrets by id.
    pub(super) secrets: BTreeMap<String, Vec<u8>>,
    /// Socket of the SSH agent.
    pub(super) agent: Option<PathBuf>,
    /// Folders by the path of their URL. Each is sent once.
    pub(super) uploads: Mutex<HashMap<String, Packed>>,
}

impl Session {
    /// Headers of the request that opens the session.
    pub(super) fn headers(&self) -> Vec<(&'static str, String)> {
        let methods = METHODS.map(|method| ("x-docker-expose-session-grpc-method", method.to_owned()));
        let name = ("x-docker-expose-session-uuid", self.name.clone());
        std::iter::once(name).chain(methods).collect()
    }

    /// Adds a folder, and returns its URL for the engine.
    pub(super) fn add_upload(&mut self, folder: &str, packed: Packed) -> String {
        let path = format!("/{}/{folder}", self.name);
        let url = format!("http://buildkit-session{path}");
        let uploads = self.uploads.get_mut().unwrap_or_else(PoisonError::into_inner);
        uploads.insert(path, packed);
        url
    }

    /// Answers the engine until it closes the connection.
    pub(super) async fn serve(
        self,
        connection: impl Read + Write + Send + Unpin + 'static,
    ) -> Result<(), hyper::Error> {
        let session = Arc::new(self);
        let services = Routes::new(HealthServer::from_arc(session.clone()))
            .add_service(AuthServer::from_arc(session.clone()))
            .add_service(UploadServer::from_arc(session.clone()))
            .add_service(SecretsServer::from_arc(session.clone()))
            .add_service(SshServer::from_arc(session));
        http2::Builder::new(TokioExecutor::new())
            .serve_connection(connection, TowerToHyperService::new(services))
            .await
    }
}

fn not_served<T>(what: &str) -> Result<Response<T>, Status> {
    Err(Status::unimplemented(format!("Argus does not serve {what}")))
}

#[tonic::async_trait]
impl Health for Session {
    type WatchStream = BoxStream<'static, Result<HealthCheckResponse, Status>>;

    /// The engine closes a session whose client does not answer.
    async fn check(&self, _: Request<HealthCheckRequest>) -> Result<Response<HealthCheckResponse>, Status> {
        let status = ServingStatus::Serving.into();
        Ok(Response::new(HealthCheckResponse { status }))
    }

    async fn list(&self, _: Request<HealthListRequest>) -> Result<Response<HealthListResponse>, Status> {
        not_served("lists of services")
    }

    async fn watch(&self, _: Request<HealthCheckRequest>) -> Result<Response<Self::WatchStream>, Status> {
        not_served("watches of services")
    }
}

#[tonic::async_trait]
impl Auth for Session {
    async fn credentials(
        &self,
        request: Request<filesync::CredentialsRequest>,
    ) -> Result<Response<filesync::CredentialsResponse>, Status> {
        let found = self.credentials.get(&request.get_ref().host).cloned();
        let found = found.unwrap_or_default();
        let (username, secret) = match found.identitytoken {
            Some(token) => (String::new(), token),
            None => (
                found.username.unwrap_or_default(),
                found.password.unwrap_or_default(),
            ),
        };
        Ok(Response::new(filesync::CredentialsResponse { username, secret }))
    }

    // Without these three, the engine requests the token of a registry itself, with the credentials.
    async fn fetch_token(
        &self,
        _: Request<filesync::FetchTokenRequest>,
    ) -> Result<Response<filesync::FetchTokenResponse>, Status> {
        not_served("tokens")
    }

    async fn get_token_authority(
        &self,
        _: Request<filesync::GetTokenAuthorityRequest>,
    ) -> Result<Response<filesync::GetTokenAuthorityResponse>, Status> {
        not_served("tokens")
    }

    async fn verify_token_authority(
        &self,
        _: Request<filesync::VerifyTokenAuthorityRequest>,
    ) -> Result<Response<filesync::VerifyTokenAuthorityResponse>, Status> {
        not_served("tokens")
    }
}

#[tonic::async_trait]
impl Upload for Session {
    type PullStream = BoxStream<'static, Result<BytesMessage, Status>>;

    async fn pull(
        &self,
        request: Request<Streaming<BytesMessage>>,
    ) -> Result<Response<Self::PullStream>, Status> {
        let path = request.metadata().get("urlpath");
        let path = path.and_then(|path| path.to_str().ok()).unwrap_or_default();
        let mut uploads = self.uploads.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(packed) = uploads.remove(path) else {
            return Err(Status::not_found("the folder was sent before"));
        };
        let messages = packed.map(|chunk| match chunk {
            Ok(chunk) => Ok(BytesMessage { data: chunk.into() }),
            // The engine would build a tar that merely ends early.
            Err(error) => Err(Status::aborted(error.to_string())),
        });
        Ok(Response::new(messages.boxed()))
    }
}

#[tonic::async_trait]
impl Secrets for Session {
    async fn get_secret(
        &self,
        request: Request<GetSecretRequest>,
    ) -> Result<Response<GetSecretResponse>, Status> {
        let id = &request.get_ref().id;
        match self.secrets.get(id) {
            Some(data) => Ok(Response::new(GetSecretResponse { data: data.clone() })),
            None => Err(Status::not_found(format!("`build.secrets` has no `{id}`"))),
        }
    }
}

#[tonic::async_trait]
impl Ssh for Session {
    type ForwardAgentStream = BoxStream<'static, Result<sshforward::BytesMessage, Status>>;

    async fn check_agent(
        &self,
        request: Request<sshforward::CheckAgentRequest>,
    ) -> Result<Response<sshforward::CheckAgentResponse>, Status> {
        match (request.get_ref().id.as_str(), &self.agent) {
            ("" | DEFAULT_AGENT, Some(_)) => Ok(Response::new(sshforward::CheckAgentResponse {})),
            (id, _) => Err(Status::not_found(format!("`build.ssh` has no `{id}`"))),
        }
    }

    async fn forward_agent(
        &self,
        request: Request<Streaming<sshforward::BytesMessage>>,
    ) -> Result<Response<Self::ForwardAgentStream>, Status> {
        let Some(agent) = &self.agent else {
            return Err(Status::not_found("`build.ssh` is not set"));
        };
        let agent = UnixStream::connect(agent).await;
        let agent = agent.map_err(|error| Status::unavailable(format!("the SSH agent: {error}")))?;
        let (reader, mut writer) = agent.into_split();
        let mut requests = request.into_inner();
        let forward = async move {
            while let Ok(Some(message)) = requests.message().await {
                if writer.write_all(&message.data).await.is_err() {
                    break;
                }
            }
        };
        let answers = stream::unfold(reader, |mut reader| async {
            let mut data = vec![0; AGENT_BUFFER];
            let read = reader.read(&mut data).await.ok().filter(|read| *read > 0)?;
            data.truncate(read);
            Some((Ok(sshforward::BytesMessage { data }), reader))
        });
        // One stream, so that both directions end with the call.
        let forward = stream::once(forward).filter_map(|()| async { None });
        Ok(Response::new(stream::select(answers, forward).boxed()))
    }
}

#[cfg(test)]
mod tests {
    use bollard_buildkit_proto::moby::buildkit::secrets::v1::secrets_client::SecretsClient;
    use bollard_buildkit_proto::moby::filesync::v1::auth_client::AuthClient;
    use bollard_buildkit_proto::moby::sshforward::v1::ssh_client::SshClient;
    use bollard_buildkit_proto::moby::upload::v1::upload_client::UploadClient;
    use hyper::Uri;
    use hyper_util::rt::TokioIo;
    use tokio::net::UnixListener;
    use tonic::Code;

    use super::super::control::{Calls, ORIGIN};
    use super::*;

    /// Calls to a session over a connection in memory.
    #[allow(clippy::disallowed_methods, reason = "both tasks end with the test")]
    async fn connect(session: Session) -> Calls {
        let (ours, theirs) = tokio::io::duplex(64 * 1024);
        tokio::spawn(session.serve(TokioIo::new(theirs)));
        let client = hyper::client::conn::http2::Builder::new(TokioExecutor::new());
        let (calls, connection) = client.handshake(TokioIo::new(ours)).await.unwrap();
        tokio::spawn(connection);
        Calls(calls)
    }

    fn origin() -> Uri {
        Uri::from_static(ORIGIN)
    }

    #[tokio::test]
    async fn credentials_and_secrets_are_those_of_the_build() {
        let login = |username: &str| DockerCredentials {
            username: Some(username.to_owned()),
            password: Some("pass".to_owned()),
            ..DockerCredentials::default()
        };
        let token = DockerCredentials {
            identitytoken: Some("token".to_owned()),
            ..login("me")
        };
        let calls = connect(Session {
            credentials: [("a".to_owned(), login("me")), ("b".to_owned(), token)].into(),
            secrets: [("key".to_owned(), b"value".to_vec())].into(),
            ..Session::default()
        })
        .await;
        let mut auth = AuthClient::with_origin(calls.clone(), origin());
        for (host, username, secret) in [("a", "me", "pass"), ("b", "", "token"), ("c", "", "")] {
            let host = host.to_owned();
            let request = filesync::CredentialsRequest { host };
            let found = auth.credentials(request).await.unwrap().into_inner();
            assert_eq!(
                (found.username.as_str(), found.secret.as_str()),
                (username, secret)
            );
        }
        let mut secrets = SecretsClient::with_origin(calls, origin());
        let request = |id: &str| GetSecretRequest {
            id: id.to_owned(),
            annotations: HashMap::new(),
        };
        let found = secrets.get_secret(request("key")).await.unwrap();
        assert_eq!(found.into_inner().data, b"value");
        let missing = secrets.get_secret(request("other")).await.unwrap_err();
        assert_eq!(missing.code(), Code::NotFound);
    }

    #[tokio::test]
    async fn folder_is_sent_once() {
        let mut session = Session {
            name: "s".to_owned(),
            ..Session::default()
        };
        let parts = ["one", "two"].map(|part| Ok(Bytes::from_static(part.as_bytes())));
        let url = session.add_upload("0", stream::iter(parts).boxed());
        let path = url.strip_prefix("http://buildkit-session").unwrap().to_owned();
        let mut uploads = UploadClient::with_origin(connect(session).await, origin());
        for is_first in [true, false] {
            let mut request = Request::new(stream::empty::<BytesMessage>());
            request.metadata_mut().insert("urlpath", path.parse().unwrap());
            let pulled = uploads.pull(request).await;
            if !is_first {
                assert_eq!(pulled.unwrap_err().code(), Code::NotFound);
                continue;
            }
            let mut parts = pulled.unwrap().into_inner();
            let mut all = Vec::new();
            while let Some(part) = parts.message().await.unwrap() {
                all.extend(part.data);
            }
            assert_eq!(all, b"onetwo");
        }
    }

    #[tokio::test]
    async fn agent_answers_through_the_session() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("agent.sock");
        let agent = UnixListener::bind(&path).unwrap();
        let answer = async {
            let (mut stream, _) = agent.accept().await.unwrap();
            let mut request = [0; 5];
            stream.read_exact(&mut request).await.unwrap();
            stream.write_all(b"no keys").await.unwrap();
            request
        };
        let calls = connect(Session {
            agent: Some(path),
            ..Session::default()
        })
        .await;
        let mut ssh = SshClient::with_origin(calls, origin());
        let check = |id: &str| sshforward::CheckAgentRequest { id: id.to_owned() };
        ssh.check_agent(check("default")).await.unwrap();
        assert_eq!(
            ssh.check_agent(check("other")).await.unwrap_err().code(),
            Code::NotFound
        );
        let data = vec![0, 0, 0, 1, 11];
        let requests = stream::iter([sshforward::BytesMessage { data }]);
        let query = async {
            let mut answers = ssh.forward_agent(requests).await.unwrap().into_inner();
            answers.message().await.unwrap().unwrap().data
        };
        let (request, answer) = tokio::join!(answer, query);
        assert_eq!(request, [0, 0, 0, 1, 11]);
        assert_eq!(answer, b"no keys");
    }

    #[tokio::test]
    async fn build_without_an_agent_forwards_none() {
        let mut ssh = SshClient::with_origin(connect(Session::default()).await, origin());
        let id = DEFAULT_AGENT.to_owned();
        let refused = ssh.check_agent(sshforward::CheckAgentRequest { id }).await;
        assert_eq!(refused.unwrap_err().code(), Code::NotFound);
    }
}
