package recording

import (
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEveryRecordingParses(t *testing.T) {
	if len(Names()) < 50 {
		t.Fatalf("only %d recordings", len(Names()))
	}
	for _, name := range Names() {
		r, err := Load(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(r.Reads) == 0 {
			if !strings.Contains(r.End, "refused") {
				t.Errorf("%s: neither reads nor a refused connection", name)
			}
			continue
		}
		if _, err := r.Body(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDialPlaysWithTheRecordedTiming(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r, err := Load("chat-include-usage")
		if err != nil {
			t.Fatal(err)
		}
		conn := r.Dial()
		defer conn.Close()
		start := time.Now()
		if _, err := io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"); err != nil {
			t.Fatal(err)
		}
		all, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		last := r.Reads[len(r.Reads)-1]
		if got := time.Since(start).Round(time.Millisecond); got != last.At().Round(time.Millisecond) {
			t.Errorf("the last byte came after %v, recorded %v", got, last.At())
		}
		if !strings.HasPrefix(string(all), "HTTP/1.1 200 OK") || !strings.HasSuffix(string(all), "0\r\n\r\n") {
			t.Errorf("played %q…", all[:20])
		}
	})
}

func TestLoadNamesWhatIsMissing(t *testing.T) {
	if _, err := Load("nope"); err == nil || !strings.Contains(err.Error(), `"nope"`) {
		t.Errorf("error %v", err)
	}
}
