//! ImageSetConfiguration and DeleteImageSetConfiguration: parse and check (pure)
