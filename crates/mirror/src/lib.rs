//! Collects images, executes a plan, reports
