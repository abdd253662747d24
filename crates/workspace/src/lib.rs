//! The disk: blobs by digest, image layouts, archives, audit log, lock
