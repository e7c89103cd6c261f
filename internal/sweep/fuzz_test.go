package sweep

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// FuzzRead: whatever stands in a results directory, reading it and making its summary ends, in memory in proportion to
// the files, and what comes out can be written again.
func FuzzRead(f *testing.F) {
	dir := filepath.Join(f.TempDir(), "run")
	run := storedRun()
	s, err := NewStore(dir, []byte("name: stored\n"), func(err error) { f.Errorf("storing failed: %v", err) })
	if err != nil {
		f.Fatal(err)
	}
	keepAll(s, run)
	var files [][]byte
	for _, name := range []string{RunFile, RequestsFile, QueueFile} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		files = append(files, data)
	}
	f.Add(files[0], files[1], files[2])
	f.Add(files[0], []byte(`{"level":-1,"gaps_seconds":[1e308,-1e308],"late":[2147483647,-1],"output_tokens":9223372036854775807}`+"\n{\n"), []byte("time\n,,,\n"))
	f.Add([]byte(`{"plan":{"levels":[{"concurrency":2147483647,"requests":9223372036854775807,"duration_seconds":1e300,"rate":1e300}]},"levels":[{"start":"0001-01-01T00:00:00Z","end":"9999-12-31T23:59:59Z"}]}`), files[1], files[2])
	f.Add([]byte(`{"levels":[{},{},{}]}`), files[1], []byte(nil))
	f.Fuzz(func(t *testing.T, head, requests, queue []byte) {
		dir := t.TempDir()
		for name, data := range map[string][]byte{RunFile: head, RequestsFile: requests, QueueFile: queue} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		run, err := Read(dir)
		if err == nil {
			summary := Summarize(run)
			if _, err := json.Marshal(summary); err != nil {
				t.Errorf("the summary cannot be written: %v", err)
			}
		}
		runtime.ReadMemStats(&after)
		size := uint64(len(head) + len(requests) + len(queue))
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 64<<20+2000*size {
			t.Errorf("%d MB allocated for %d bytes", allocated>>20, size)
		}
	})
}
