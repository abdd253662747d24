//! Documents on the disk: files, folders of hosts, MachineConfigs, install-configs.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use br_ex::hosts::{HostDocument, Naming, Reader};
use br_ex::{ClusterFacts, Document, Finding, RuleId, Severity};
use br_ex_authoring::inventory::{
    FileProblem, FoundFile, InventoryDocument, Placement, place_files,
};
use br_ex_authoring::{folder_reader, host_list, install_config};
use command_line::print_message;
use located_yaml::{Keys, Node, Position, load};
use machine_config::{MachineConfig, Pool, Role};
use machine_identity::short_name;

use crate::machines::Named;
use crate::reading;

/// A document, and where it comes from.
#[derive(Debug)]
pub(crate) struct Input {
    pub(crate) path: PathBuf,
    /// Its path on the node, when it is inside of a MachineConfig.
    pub(crate) inner: Option<String>,
    /// The host it is for; `None` when that is not known.
    pub(crate) host: Option<String>,
    pub(crate) document: HostDocument,
    /// What is wrong with its location among the files.
    pub(crate) findings: Vec<Finding>,
    /// The machine that it names itself.
    pub(crate) named: Named,
}

impl Input {
    fn new(path: PathBuf, document: HostDocument) -> Self {
        let is_named = !matches!(document.naming, Naming::Loose) && !document.is_for_all();
        let host = is_named.then(|| document.host().to_owned());
        let named = Named::default();
        Self { path, inner: None, host, document, findings: Vec::new(), named }
    }

    /// With the machine that its text names.
    fn with_text(mut self, reader: Reader, bytes: &[u8]) -> Self {
        self.named = Named::read(self.host.as_deref(), reader, bytes);
        self
    }
}

/// What was read.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) list: Vec<Input>,
    /// What an install-config contains about the cluster.
    pub(crate) cluster_facts: ClusterFacts,
    /// MachineConfigs and the files they are in. Their documents are read last, because the
    /// units of one determine how the files of another are read.
    configs: Vec<(PathBuf, MachineConfig)>,
    /// The hosts that installers list.
    pub(crate) listed: BTreeSet<String>,
    /// Inputs without a br-ex document, which is not an error.
    without_documents: usize,
}

/// What is known about documents beside their text.
#[derive(Debug, Clone, Default)]
pub(crate) struct Known {
    /// The role of hosts whose location does not contain it.
    pub(crate) role: Option<Role>,
    /// The program that reads documents on the nodes.
    pub(crate) reader: Option<Reader>,
}

impl Inputs {
    /// Reads files and folders.
    pub(crate) fn read(paths: &[PathBuf], known: &Known) -> Result<Self> {
        let mut inputs = Self::default();
        for path in paths {
            let kind = fs::metadata(path).with_context(|| format!("reading {}", path.display()))?;
            if kind.is_dir() {
                inputs.read_folder(path, known)?;
            } else {
                let bytes = reading::bytes(path)?;
                if !inputs.read_manifest(path, &bytes, known)? {
                    inputs.push_document(path, Document::parse(&bytes));
                    let reader = known.reader.unwrap_or_default();
                    if let Some(last) = inputs.list.last_mut() {
                        last.named = Named::read(None, reader, &bytes);
                    }
                }
            }
        }
        inputs.read_machine_configs(known.reader);
        if inputs.list.is_empty() && inputs.without_documents == 0 {
            let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
            bail!(
                "expected br-ex documents in {}, found none; name NMState documents, folders with \
                 <role>/<host>.yml or <host>.yml, MachineConfigs or an install-config",
                names.join(", ")
            );
        }
        Ok(inputs)
    }

    /// The documents in MachineConfigs of a cluster.
    pub(crate) fn of_machine_configs(configs: &[MachineConfig], known: &Known) -> Result<Self> {
        let place = |config: &MachineConfig| {
            (PathBuf::from(format!("machineconfig/{}", config.name)), config.clone())
        };
        let mut inputs = Self { configs: configs.iter().map(place).collect(), ..Self::default() };
        inputs.read_machine_configs(known.reader);
        if inputs.list.is_empty() {
            bail!(
                "no MachineConfig of the cluster has a document for br-ex, so configure-ovs creates it \
                 on the interface with the default route; name documents to check them for this cluster"
            );
        }
        Ok(inputs)
    }

    /// A document that may be called anything.
    fn push_document(&mut self, path: &Path, document: Document) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let role = String::new();
        let document = HostDocument { role, name, naming: Naming::Loose, document };
        self.list.push(Input::new(path.to_owned(), document));
    }

    fn read_folder(&mut self, folder: &Path, known: &Known) -> Result<()> {
        let mut documents = Vec::new();
        for file in reading::folder(folder)? {
            if !self.read_manifest(&folder.join(&file.path), &file.bytes, known)? {
                documents.push(file);
            }
        }
        let top = folder.display().to_string();
        let placement = place_files(&top, &documents, known.role.as_ref());
        notes(&top, &placement).iter().for_each(|note| print_message(note));
        for (_, _, placed) in placement.inventory.documents() {
            let input = Input::new(placed.origin.clone().into(), placed.host.clone());
            self.list.push(input.with_text(known.reader.unwrap_or_default(), &placed.bytes));
        }
        for problem in &placement.problems {
            let file = documents.iter().find(|file| file.path == problem.path());
            self.list.extend(file.map(|file| misplaced(folder, file, problem)));
        }
        self.list.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(())
    }

    /// Reads a file with a kind of its own. `false` when it is a plain document.
    fn read_manifest(&mut self, path: &Path, bytes: &[u8], known: &Known) -> Result<bool> {
        let text = String::from_utf8_lossy(bytes);
        if let Some(policies) = Document::policies(&text) {
            for document in policies {
                self.push_document(path, document);
            }
            return Ok(true);
        }
        let root = load(&text, Keys::Exact).root;
        let kind = root.as_ref().and_then(|root| root.get("kind")).and_then(Node::text);
        match (kind, &root) {
            (Some("MachineConfig" | "MachineConfigList" | "List"), _) => {
                let reading = || format!("reading {}", path.display());
                let read = machine_config::parse_all(&text).with_context(reading)?;
                let configs = read.machine_configs.into_iter();
                self.configs.extend(configs.map(|config| (path.to_owned(), config)));
            }
            (Some(kind), _) if host_list::KINDS.contains(&kind) => {
                self.read_host_list(path, &text)?;
            }
            (None, Some(root)) if host_list::is_host_list(root) => {
                self.read_host_list(path, &text)?;
            }
            (None, Some(root)) if install_config::is_install_config(root) => {
                self.read_install_config(path, &text, known)?;
            }
            (Some(_), _) => self.push_document(path, Document::parse(bytes)),
            (None, _) => return Ok(false),
        }
        Ok(true)
    }

    fn read_machine_configs(&mut self, reader: Option<Reader>) {
        for (path, config) in &self.configs {
            let all = self.configs.iter().map(|(_, config)| config);
            let of_pool = || match &config.role {
                Some(role) => folder_reader::of_pool(&Pool::new(role, all)),
                None => Reader::Unknown,
            };
            let reader = reader.unwrap_or_else(of_pool);
            let is_ours =
                |file: &&machine_config::File| file.path.is_within(machine_config::BR_EX_FOLDER);
            for file in config.files.iter().filter(is_ours) {
                let document = HostDocument {
                    role: config.role.as_ref().map(ToString::to_string).unwrap_or_default(),
                    name: file.path.file_name().to_owned(),
                    naming: Naming::FileOnNode(reader),
                    document: Document::parse(file.contents.bytes()),
                };
                let inner = Some(file.path.as_str().to_owned());
                let input = Input { inner, ..Input::new(path.clone(), document) };
                self.list.push(input.with_text(reader, file.contents.bytes()));
            }
        }
    }

    fn read_install_config(&mut self, path: &Path, text: &str, known: &Known) -> Result<()> {
        let config =
            install_config::parse(text).with_context(|| format!("reading {}", path.display()))?;
        let role = known.role.as_ref().map(Role::as_str);
        if let Some(note) = config.note(role) {
            print_message(&format!("note: {}: {note}", path.display()));
        }
        let has_other = self.read_host_list(path, text)?;
        if config.hosts.is_empty() && !has_other {
            print_message(&format!(
                "note: {}: there is no `networking.hostConfig`, so configure-ovs creates br-ex on \
                 the interface with the default route",
                path.display()
            ));
            self.without_documents += 1;
        }
        for document in config.documents(role) {
            self.list.push(Input::new(path.to_owned(), document));
        }
        self.cluster_facts = config.cluster_facts;
        Ok(())
    }

    /// Reads the networks that hosts are installed with. Returns whether there is one.
    fn read_host_list(&mut self, path: &Path, text: &str) -> Result<bool> {
        let reading = || format!("reading {}", path.display());
        let hosts = host_list::parse(text).with_context(reading)?;
        self.listed.extend(hosts.iter().map(|host| short_name(&host.name).to_owned()));
        let mut has_bridge = false;
        let mut has_network = false;
        for host in &hosts {
            let Some(network) = &host.network else { continue };
            has_network = true;
            let document = Document::of_installation(network);
            has_bridge |= document.layout().is_some_and(|layout| layout.mentions_br_ex());
            let document = HostDocument {
                role: host.role.clone().unwrap_or_default(),
                name: host.name.clone(),
                naming: Naming::Loose,
                document,
            };
            let input = Input::new(path.to_owned(), document);
            self.list.push(Input { host: Some(host.name.clone()), ..input });
        }
        if !has_bridge {
            self.without_documents += 1;
        }
        if has_network && !has_bridge {
            print_message(&format!(
                "note: {}: these networks have no br-ex, so configure-ovs creates it on the interface \
                 with the default route; `oc-brex import` writes documents with br-ex",
                path.display()
            ));
        }
        Ok(has_network)
    }
}

/// A document that `render` would reject for its location or name.
fn misplaced(folder: &Path, file: &FoundFile, problem: &FileProblem) -> Input {
    let placed = InventoryDocument::from_file(&Role::worker(), &file.path, &file.bytes);
    let document = HostDocument { naming: Naming::Loose, ..placed.host };
    let rule = match problem {
        FileProblem::Twice { .. } => RuleId::B31,
        FileProblem::Name { .. } | FileProblem::Folder { .. } | FileProblem::TooDeep { .. } => {
            RuleId::B30
        }
    };
    let (at, severity) = (Position::START, Severity::Error);
    let finding = Finding { at, rule, severity, message: problem.to_string() };
    Input { findings: vec![finding], ..Input::new(folder.join(&file.path), document) }
}

/// What an administrator should know about the files of a folder.
pub(crate) fn notes(top: &str, placement: &Placement) -> Vec<String> {
    let note = |path: &String| {
        format!(
            "note: {top}/{path}: the role is not known, so the document goes to the \
             MachineConfigs of both master and worker; move it to the folder of its role, or \
             give --role"
        )
    };
    placement.without_role.iter().map(note).collect()
}
