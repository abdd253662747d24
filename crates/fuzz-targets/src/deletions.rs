//! Lists of images to delete.

use delete_plan::ImageList;

use crate::text;

/// A list. What is accepted is written back and read again.
pub fn delete_list(data: &[u8]) {
    let Some(text) = text(data) else { return };
    let list = match ImageList::parse(text) {
        Ok(list) => list,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    let written = list.to_yaml().expect("an accepted list can be written");
    match ImageList::parse(&written) {
        Ok(again) => assert_eq!(again, list, "{written}"),
        Err(error) => panic!("{error}\n{written}"),
    }
}
