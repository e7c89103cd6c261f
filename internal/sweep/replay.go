package sweep

// Replay tells a watcher of a run that is over, as it would have been told while it went on.
func Replay(run *Run, w Watcher) {
	seen := *run
	seen.Levels, seen.Plan.Levels = nil, nil
	w.Began(&seen)
	requests, samples := run.Requests, run.Queue
	for i := range run.Levels {
		seen.Levels, seen.Plan.Levels = run.Levels[:i+1], run.Plan.Levels[:i+1]
		w.LevelBegan(i, &seen)
		w.Entered(i, Loading, run.Levels[i].Start)
		for ; len(requests) > 0 && requests[0].Level <= i; requests = requests[1:] {
			w.Ended(&requests[0])
		}
		for ; len(samples) > 0 && samples[0].Level <= i; samples = samples[1:] {
			w.Sampled(samples[0])
		}
		w.LevelEnded(i, &seen)
	}
	w.Finished(run)
}
