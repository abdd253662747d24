//! A trust policy: which requirements an image must meet.

use std::io;
use std::path::Path;

use crate::document::{self, PolicyError, Scopes};
use crate::requirement::{Presented, Refusal, Requirement};
use crate::scope::{Name, Transport};

/// A policy whose keys are at hand.
#[derive(Debug, Clone)]
pub struct Policy {
    default: Vec<Requirement>,
    docker: Scopes,
    oci: Scopes,
}

/// The part of a policy that applies to one image.
#[derive(Debug, Clone)]
pub struct Rule<'a> {
    name: Name<'a>,
    /// Where in the policy it stands, for users.
    place: String,
    requirements: &'a [Requirement],
}

impl Policy {
    /// Reads a policy. `read_key` gets the content of a key file; a file that
    /// cannot be read, like everything that is not understood, is an error.
    pub fn parse(
        text: &str,
        read_key: impl Fn(&Path) -> io::Result<Vec<u8>>,
    ) -> Result<Self, PolicyError> {
        let read = document::read(text, &read_key)?;
        Ok(Self { default: read.default, docker: read.docker, oci: read.oci })
    }

    /// The rule for an image: that of the most specific scope it falls under,
    /// else the default of its transport, else the default of the policy.
    pub fn rule<'a>(&'a self, name: Name<'a>) -> Rule<'a> {
        let transport = name.transport();
        let scopes = match transport {
            Transport::Docker => &self.docker,
            Transport::Oci => &self.oci,
        };
        let (kind, specific) = (transport.name(), name.scopes());
        let mut specific = specific.iter();
        if let Some((scope, rule)) = specific.find_map(|scope| scopes.get_key_value(scope)) {
            return Rule { name, place: format!("{kind} scope {scope}"), requirements: rule };
        }
        match scopes.get("") {
            Some(rule) => Rule { name, place: format!("{kind} default"), requirements: rule },
            None => Rule { name, place: "default".into(), requirements: &self.default },
        }
    }
}

impl Rule<'_> {
    /// Whether signatures in the registry can make a difference. Otherwise none need be read.
    pub fn reads_signatures(&self) -> bool {
        self.requirements.iter().any(|one| matches!(one, Requirement::Signed(_)))
    }

    /// Whether signatures on a lookaside server can make a difference.
    pub fn reads_lookaside(&self) -> bool {
        self.requirements.iter().any(|one| matches!(one, Requirement::SignedBy(_)))
    }

    /// Accepts an image, or returns every reason against it.
    pub fn judge(&self, image: &Presented) -> Result<(), Refusal> {
        let objections = self.requirements.iter().flat_map(|one| one.objections(self.name, image));
        let mut reasons: Vec<String> = Vec::new();
        for reason in objections {
            if !reasons.contains(&reason) {
                reasons.push(reason);
            }
        }
        match reasons.is_empty() {
            true => Ok(()),
            false => Err(Refusal { place: self.place.clone(), reasons }),
        }
    }
}

#[cfg(test)]
mod tests;
