//! What a run of templates may use. Templates are untrusted: without bounds, a few lines loop
//! forever or double a text until memory is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Bounds of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Nodes evaluated and functions called, plus one for every 64 bytes that functions are given and
    /// every 16 bytes that they return.
    pub steps: u64,
    /// Nesting of everything that recurses: blocks, pipelines, templates that call templates.
    pub depth: usize,
    /// Bytes written by all templates together, including what they include.
    pub output_bytes: usize,
    /// Size of one value that a function returns: bytes of a text, elements of a list.
    pub value_size: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { steps: 50_000_000, depth: 400, output_bytes: 64 << 20, value_size: 16 << 20 }
    }
}

/// A limit that a template reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Exceeded {
    #[error("the template needs more than {0} steps")]
    Steps(u64),
    #[error("templates are nested deeper than {0} levels")]
    Depth(usize),
    #[error("the templates write more than {0} bytes")]
    Output(usize),
    #[error("a value is larger than {0} bytes or elements")]
    Value(usize),
    /// The caller of the run raised its [`Stop`].
    #[error("rendering takes too long")]
    Stopped,
}

/// Ends a run from another thread, such as after a timeout. Clones share one state.
#[derive(Debug, Clone, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    pub fn raise(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    pub fn is_raised(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Limits and what was used of them. One budget serves all templates of a chart.
#[derive(Debug, Clone)]
pub struct Budget {
    limits: Limits,
    steps: u64,
    depth: usize,
    /// Bytes of the templates that ended.
    written: usize,
    stop: Stop,
}

impl Budget {
    pub fn new(limits: Limits) -> Self {
        Self::stoppable(limits, Stop::default())
    }

    /// A budget whose run also ends when `stop` is raised.
    pub fn stoppable(limits: Limits, stop: Stop) -> Self {
        Self { limits, steps: 0, depth: 0, written: 0, stop }
    }

    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Steps used until now.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Accounts for `count` steps.
    pub fn spend(&mut self, count: u64) -> Result<(), Exceeded> {
        self.steps = self.steps.saturating_add(count);
        if self.steps > self.limits.steps {
            return Err(Exceeded::Steps(self.limits.steps));
        }
        if self.stop.is_raised() {
            return Err(Exceeded::Stopped);
        }
        Ok(())
    }

    /// Accounts for a value of `size` bytes or elements, before it is built.
    pub fn allocate(&mut self, size: usize) -> Result<(), Exceeded> {
        if size > self.limits.value_size {
            return Err(Exceeded::Value(self.limits.value_size));
        }
        self.spend(size as u64 / 16)
    }

    /// How much the template that is running may write.
    pub(crate) fn output_left(&self) -> usize {
        self.limits.output_bytes.saturating_sub(self.written)
    }

    /// Accounts for the output of a template that ended.
    pub(crate) fn wrote(&mut self, bytes: usize) {
        self.written = self.written.saturating_add(bytes);
    }

    pub(crate) fn enter(&mut self) -> Result<(), Exceeded> {
        if self.depth >= self.limits.depth {
            return Err(Exceeded::Depth(self.limits.depth));
        }
        self.depth += 1;
        Ok(())
    }

    /// Forgets nesting that an error left behind.
    pub(crate) fn surface(&mut self) {
        self.depth = 0;
    }

    pub(crate) fn leave(&mut self) {
        self.depth = self.depth.saturating_sub(1);
    }
}
