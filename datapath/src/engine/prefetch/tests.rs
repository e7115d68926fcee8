use super::*;

/// A burst of runs of so many frames each, as whole runs or single frames are handled.
fn steps_come_in_time(runs: &[usize], whole: bool) {
    let mut arrivals = Arrivals::new();
    let owners = runs.iter().enumerate().flat_map(|(run, frames)| core::iter::repeat_n(run, *frames));
    let owners: Vec<u32> = owners.map(|run| u32::try_from(run).unwrap()).collect();
    owners.iter().enumerate().for_each(|(index, run)| arrivals.push(index, Arrival(*run)));
    let mut taken = [0; 2];
    for index in 0..owners.len() {
        let starts = index == 0 || owners[index] != owners[index - 1];
        if whole && !starts {
            continue;
        }
        arrivals.begin(index);
        for step in [Step::Context, Step::Queue] {
            let (distance, taken) = (step.distance(), &mut taken[step as usize]);
            while let Some(run) = arrivals.next(step) {
                assert_eq!(run.of.qpn(), *taken, "each run once, in order");
                assert_eq!(run.frames as usize, runs[*taken as usize]);
                *taken += 1;
            }
            let by_runs = owners[index] as usize + distance.runs;
            let by_frames = owners[(index + distance.frames).min(owners.len() - 1)] as usize;
            let due = (by_runs.max(by_frames) + 1).min(runs.len());
            assert_eq!(*taken as usize, due, "{runs:?}: at frame {index}");
        }
        assert!(taken.is_sorted_by(|one, next| one >= next), "no step before the one that it needs");
    }
    assert_eq!(taken.map(|taken| taken as usize), [runs.len(); 2]);
}

#[test]
fn each_step_is_taken_once_for_each_run_and_in_time() {
    for whole in [true, false] {
        steps_come_in_time(&[1; RX_BURST], whole);
        steps_come_in_time(&[8; 4], whole);
        steps_come_in_time(&[RX_BURST], whole);
        steps_come_in_time(&[1, 7, 2, 12, 1, 1, 8], whole);
        steps_come_in_time(&[1], whole);
    }
}
