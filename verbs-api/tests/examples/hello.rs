//! Two processes of the example `hello` write to each other.

use super::talk;

#[test]
fn two_of_it_talk() {
    for (said, peer) in talk("hello").iter().zip(["client", "server"]) {
        assert!(said.contains("RecvRdmaWithImm 1: IBV_WC_SUCCESS: success\n"), "{said}");
        assert!(said.contains("RdmaWrite 2: IBV_WC_SUCCESS: success\n"), "{said}");
        assert!(said.ends_with(&format!("hello from the {peer}\n")), "{said}");
    }
}
