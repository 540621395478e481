//! Taken ports: the extra time to Ready while other processes hold the requested ports of ten services.

use argus_tests::fixture::singles;
use argus_tests::{Controller, PortHolder, PrivateEngine, RunOptions};

use crate::figure::Figure;
use crate::{argus_down, argus_up, push};

const COUNT: usize = 10;
const FREE: u16 = 21_100;
const TAKEN: u16 = 21_200;

pub(crate) fn run(engine: &PrivateEngine, pairs: usize, figures: &mut Vec<Figure>) {
    let ports = |first: u16| (first..).take(COUNT).collect::<Vec<u16>>();
    let _holders: Vec<PortHolder> = ports(TAKEN)
        .into_iter()
        .map(|port| PortHolder::new(engine, port))
        .collect();
    let controller = Controller::start(engine, RunOptions::default());
    let (mut free, mut taken, mut extra) = (vec![], vec![], vec![]);
    for pair in 0..pairs * 2 {
        let time = |kind: &str, first: u16| {
            let project = format!("ports{kind}{pair}");
            let took = argus_up(&controller, &project, &singles(&project, &ports(first), ""));
            argus_down(engine, &controller, &project);
            took
        };
        let (without, with) = (time("free", FREE), time("taken", TAKEN));
        free.push(without);
        taken.push(with);
        extra.push(with - without);
    }
    push(figures, Figure::new("time to Ready, 10 free ports", "ms", free));
    push(figures, Figure::new("time to Ready, 10 taken ports", "ms", taken));
    let extra = Figure::new("10 taken ports above 10 free ports", "ms", extra);
    push(figures, extra.goal(("≤ 300 ms", 300.0)));
}
