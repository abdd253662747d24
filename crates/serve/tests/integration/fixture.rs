//! Generated content in a temporary directory, and a server that serves it.
// Each test binary uses a part of it.
#![allow(dead_code, unreachable_pub, clippy::unwrap_used)]

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use mirror_plan::{Attachment, BlobRef, ImageRecord, ImageTree, Kind, ManifestNode, Origin};
use oci::{Descriptor, Digest, MediaType, RawManifest, Tag};
use serde_json::json;
use serve::{CurrentSnapshot, NamedImage, Options, Server, Snapshot, Store, Warning};
use tempfile::TempDir;
use tokio::sync::oneshot;

/// Ends a test that hangs; nothing here takes that long.
pub const DEADLINE: Duration = Duration::from_secs(120);

/// Files named by digest.
pub struct Files(Arc<TempDir>);

impl Store for Files {
    fn open(&self, digest: &Digest) -> io::Result<File> {
        File::open(self.0.path().join(digest.hex()))
    }
}

#[derive(Clone, Copy)]
pub enum Format {
    Docker,
    Oci,
}

/// Blobs and images from which a snapshot is built.
pub struct TestContent {
    pub dir: Arc<TempDir>,
    pub images: Vec<NamedImage>,
}

impl TestContent {
    pub fn new() -> Self {
        Self { dir: Arc::new(tempfile::tempdir().unwrap()), images: Vec::new() }
    }

    pub fn path(&self, digest: Digest) -> PathBuf {
        self.dir.path().join(digest.hex())
    }

    pub fn put(&self, bytes: &[u8]) -> BlobRef {
        let digest = Digest::of(bytes);
        fs::write(self.path(digest), bytes).unwrap();
        BlobRef { digest, size: bytes.len() as u64 }
    }

    /// A manifest in the store, with the blobs it names.
    fn manifest(&self, document: &serde_json::Value) -> ManifestNode {
        let raw = RawManifest::new(None, document.to_string().into_bytes()).unwrap();
        let BlobRef { digest, size } = self.put(&raw.bytes);
        let parsed = raw.parse().unwrap();
        let blobs = parsed.blobs();
        let blobs = blobs.iter().map(|one| BlobRef { digest: one.digest, size: one.size });
        let blobs = blobs.collect();
        ManifestNode { media_type: raw.media_type, digest, size, platform: None, blobs }
    }

    /// One image whose single layer is `layer`.
    pub fn image(&self, format: Format, architecture: &str, layer: &[u8]) -> ManifestNode {
        let (manifest, config, layers) = match format {
            Format::Docker => (
                MediaType::DOCKER_MANIFEST,
                "application/vnd.docker.container.image.v1+json",
                "application/vnd.docker.image.rootfs.diff.tar",
            ),
            Format::Oci => (
                MediaType::OCI_MANIFEST,
                "application/vnd.oci.image.config.v1+json",
                "application/vnd.oci.image.layer.v1.tar",
            ),
        };
        let layer = self.put(layer);
        let image_config = json!({
            "architecture": architecture, "os": "linux", "config": {},
            "rootfs": { "type": "layers", "diff_ids": [layer.digest] },
            "history": [{ "created": "2024-01-01T00:00:00Z" }],
        });
        let image_config = self.put(image_config.to_string().as_bytes());
        self.manifest(&json!({
            "schemaVersion": 2, "mediaType": manifest,
            "config": { "mediaType": config, "digest": image_config.digest, "size": image_config.size },
            "layers": [{ "mediaType": layers, "digest": layer.digest, "size": layer.size }],
        }))
    }

    pub fn index(&self, format: Format, children: &[(&str, &ManifestNode)]) -> ManifestNode {
        let media_type = match format {
            Format::Docker => MediaType::DOCKER_LIST,
            Format::Oci => MediaType::OCI_INDEX,
        };
        let manifests: Vec<_> = children
            .iter()
            .map(|(architecture, child)| {
                json!({
                    "mediaType": child.media_type, "digest": child.digest, "size": child.size,
                    "platform": { "architecture": architecture, "os": "linux" },
                })
            })
            .collect();
        self.manifest(
            &json!({ "schemaVersion": 2, "mediaType": media_type, "manifests": manifests }),
        )
    }

    /// Something of `artifact_type` that belongs to `subject`, by OCI's rules.
    pub fn referrer(&self, subject: &ManifestNode, artifact_type: &str) -> Attachment {
        let layer = self.put(artifact_type.as_bytes());
        let empty = self.put(b"{}");
        let node = self.manifest(&json!({
            "schemaVersion": 2, "mediaType": MediaType::OCI_MANIFEST, "artifactType": artifact_type,
            "config": { "mediaType": MediaType::OCI_EMPTY, "digest": empty.digest, "size": empty.size },
            "layers": [{ "mediaType": artifact_type, "digest": layer.digest, "size": layer.size }],
            "subject": { "mediaType": subject.media_type, "digest": subject.digest, "size": subject.size },
        }));
        let mut listed = Descriptor::new(node.media_type.clone(), node.digest, node.size);
        listed.artifact_type = Some(artifact_type.into());
        let listed_as = Some(listed);
        Attachment { subject: subject.digest, tag: None, listed_as, manifests: vec![node] }
    }

    /// What cosign keeps beside `subject`.
    pub fn signature(&self, subject: &ManifestNode) -> Attachment {
        let node = self.image(Format::Oci, "", format!("signed {}", subject.digest).as_bytes());
        let tag = Some(Tag::of_attachment(&subject.digest, "sig"));
        Attachment { subject: subject.digest, tag, listed_as: None, manifests: vec![node] }
    }

    pub fn add_image(
        &mut self,
        name: &str,
        manifests: Vec<ManifestNode>,
        attachments: Vec<Attachment>,
    ) -> &mut ImageRecord {
        let record = ImageRecord {
            origin: Origin::Registry(format!("source.example/{name}").parse().unwrap()),
            kind: Kind::Additional,
            tree: ImageTree { manifests, left_out: Default::default(), attachments },
            blobs_held: true,
            attachments_unknown: false,
            names: Default::default(),
        };
        self.images.push(NamedImage { name: name.parse().unwrap(), record });
        &mut self.images.last_mut().unwrap().record
    }

    pub fn snapshot(&self) -> (Snapshot, Vec<Warning>) {
        let files = Arc::new(Files(Arc::clone(&self.dir)));
        Snapshot::new(files, self.images.iter().cloned())
    }

    pub fn serve(&self) -> RunningServer {
        self.serve_with(Options::default())
    }

    pub fn serve_with(&self, options: Options) -> RunningServer {
        RunningServer::start(self.snapshot().0, options)
    }
}

/// A server in its own thread; dropping it shuts it down.
pub struct RunningServer {
    pub address: SocketAddr,
    pub snapshot: CurrentSnapshot,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl RunningServer {
    pub fn start(snapshot: Snapshot, options: Options) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .unwrap();
        let local = SocketAddr::from(([127, 0, 0, 1], 0));
        let server = runtime.block_on(Server::bind(local, snapshot, options)).unwrap();
        let (address, snapshot) = (server.local_addr(), server.snapshot());
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = std::thread::spawn(move || {
            runtime.block_on(server.run(async { _ = stopped.await }));
        });
        Self { address, snapshot, stop: Some(stop), thread: Some(thread) }
    }

    /// Requests the shutdown and waits for it.
    pub fn stop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            thread.join().unwrap();
        }
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address).unwrap();
        stream.set_read_timeout(Some(DEADLINE)).unwrap();
        stream
    }

    /// Sends one request line and further header lines, byte for byte.
    pub fn send(&self, request_line: &str, headers: &[&str]) -> Response {
        let mut stream = self.connect();
        let mut request = format!("{request_line}\r\nHost: x\r\nConnection: close\r\n");
        for header in headers {
            request.push_str(header);
            request.push_str("\r\n");
        }
        request.push_str("\r\n");
        // A server that refuses early may close before it has read everything.
        _ = stream.write_all(request.as_bytes());
        let mut response = Vec::new();
        _ = stream.read_to_end(&mut response);
        Response::parse(&response)
    }

    pub fn get(&self, path: &str) -> Response {
        self.send(&format!("GET {path} HTTP/1.1"), &[])
    }
}

impl Drop for RunningServer {
    fn drop(&mut self) {
        self.stop();
    }
}

#[derive(Debug)]
pub struct Response {
    pub status: u16,
    headers: String,
    pub body: Vec<u8>,
}

impl Response {
    pub fn parse(bytes: &[u8]) -> Self {
        let end = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let end = end.unwrap_or_else(|| {
            panic!("expected a response, found {:?}", String::from_utf8_lossy(bytes))
        });
        let headers = String::from_utf8(bytes[..end].to_vec()).unwrap();
        let status = headers.split(' ').nth(1).unwrap().parse().unwrap();
        Self { status, headers, body: bytes[end + 4..].to_vec() }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers
            .lines()
            .skip(1)
            .filter_map(|line| line.split_once(": "))
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|e| panic!("{e}: {:?}", String::from_utf8_lossy(&self.body)))
    }

    pub fn error_code(&self) -> String {
        self.json()["errors"][0]["code"].as_str().unwrap().into()
    }
}
