//! Repeats a pure part of Argus, so that a profiler or valgrind can count: `pure PART COUNT ROUNDS`.

#![allow(clippy::expect_used, reason = "a wrong argument ends with a message")]

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize| arguments[index].parse().expect("a number");
    argus_tests::pure::work(&arguments[0], number(1), number(2));
}
