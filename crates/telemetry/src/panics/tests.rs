use std::cell::Cell;
use std::pin::pin;
use std::task::Waker;

use super::*;

#[test]
fn a_panic_comes_back_with_its_message_its_place_and_its_stack() {
    install();
    let panic = catch(|| -> () { panic!("a {} of ours", "bug") }).unwrap_err();
    assert_eq!(panic.message, "a bug of ours");
    assert!(panic.location.contains("panics/tests.rs"), "{panic:?}");
    assert!(panic.stack.contains("a_panic_comes_back"), "{panic:?}");
    assert_eq!(catch(|| 5).unwrap(), 5);
    assert!(!CATCHING.get());
}

#[test]
fn a_future_is_dropped_with_everything_it_held_and_its_panic_is_known() {
    struct Held<'a>(&'a Cell<usize>);
    impl Drop for Held<'_> {
        fn drop(&mut self) {
            self.0.set(self.0.get() - 1);
        }
    }
    let held = Cell::new(1);
    let mut polls = 0;
    let future = async {
        let _held = Held(&held);
        std::future::poll_fn(|_| {
            polls += 1;
            if polls == 2 { panic!("in the second poll") } else { Poll::<()>::Pending }
        })
        .await;
    };
    let mut future = pin!(future);
    let mut catch_future = catch_future(future.as_mut());
    let mut cx = Context::from_waker(Waker::noop());
    assert!(Pin::new(&mut catch_future).poll(&mut cx).is_pending());
    let Poll::Ready(Err(panic)) = Pin::new(&mut catch_future).poll(&mut cx) else {
        panic!("it did not panic")
    };
    assert!(panic.message.contains("second poll"));
    assert_eq!(held.get(), 0);
}

#[test]
fn the_stack_is_taken_once_a_minute_for_a_place() {
    let place = "only/here.rs:1:1";
    assert_eq!((is_stack_due(place), is_stack_due(place)), (true, false));
}

#[test]
fn a_task_is_restarted_until_it_ends() {
    let mut made = 0;
    let task = restart_on_panic(
        "a test",
        async || {},
        || {
            made += 1;
            let which = made;
            async move { if which < 3 { panic!("the first two") } else { which } }
        },
    );
    let mut task = pin!(task);
    let Poll::Ready(last) = task.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
        panic!("it waits for nothing")
    };
    assert_eq!(last, 3);
    assert_eq!(counters::PANICS.value("a test"), 2);
}
