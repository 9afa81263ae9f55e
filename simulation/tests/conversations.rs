//! Conversations that are named, where a world would meet them too rarely.

use keepwarm_simulation::conversations;

#[test]
fn handshakes_that_stand_still_keep_nobody_out() {
    conversations::handshakes_that_stand_still_keep_nobody_out().unwrap();
}

#[test]
fn a_worker_gets_its_request_though_the_reactor_refuses_watches_for_a_while() {
    for refused in 0..=12 {
        if let Err(failure) = conversations::a_worker_gets_its_request(refused) {
            panic!("where {refused} are refused: {failure}");
        }
    }
}

#[test]
fn a_client_is_told_to_continue_over_tls_however_small_its_socket_is() {
    conversations::a_client_is_told_to_continue_over_tls().unwrap();
}
