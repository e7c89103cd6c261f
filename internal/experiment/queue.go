package experiment

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// queueColumns are the columns of queue.csv.
func queueColumns() []string {
	return []string{
		"time", "elapsed_seconds", "level", "running", "waiting", "kv_cache_usage_ratio",
		"prompt_tokens_total", "generation_tokens_total", "preemptions_total",
	}
}

func queueHeader() []byte { return []byte(strings.Join(queueColumns(), ",") + "\n") }

// values are those of the columns from running on.
func (s *QueueSample) values() []*float64 {
	return []*float64{&s.Running, &s.Waiting, &s.KVUsage, &s.PromptTokens, &s.GenerationTokens, &s.Preemptions}
}

// queueLine is a sample as a line of queue.csv, given the start of its level.
func queueLine(s QueueSample, start time.Time) []byte {
	fields := []string{
		s.At.Format(time.RFC3339Nano), strconv.FormatFloat(s.At.Sub(start).Seconds(), 'f', 3, 64), strconv.Itoa(s.Level),
	}
	for _, v := range s.values() {
		text := ""
		if !math.IsNaN(*v) {
			text = strconv.FormatFloat(*v, 'f', -1, 64)
		}
		fields = append(fields, text)
	}
	return []byte(strings.Join(fields, ",") + "\n")
}

// readQueue reads queue.csv.
func readQueue(file io.Reader, levels int, left *LeftOut) (samples []QueueSample) {
	columns := strings.Join(queueColumns(), ",")
	scanLines(newLines(file), func(l line) {
		switch {
		case l.err != nil:
		case l.number == 1 && string(l.text) == columns:
			return
		case l.number == 1:
			l.err = fmt.Errorf("its columns are not %s", columns)
		default:
			var s QueueSample
			if s, l.err = readSample(string(l.text), levels); l.err == nil {
				samples = append(samples, s)
				return
			}
		}
		left.add(QueueFile, l.number, l.err)
	})
	return samples
}

func readSample(line string, levels int) (s QueueSample, err error) {
	fields := strings.SplitN(line, ",", len(queueColumns())+1)
	if len(fields) != len(queueColumns()) {
		return s, fmt.Errorf("not %d fields", len(queueColumns()))
	}
	if s.At, err = time.Parse(time.RFC3339Nano, fields[0]); err != nil {
		return s, err
	}
	if s.Level, err = strconv.Atoi(fields[2]); err != nil {
		return s, err
	}
	for i, v := range s.values() {
		*v = math.NaN()
		if text := fields[3+i]; text != "" {
			if *v, err = strconv.ParseFloat(text, 64); err != nil {
				return s, err
			}
			if math.IsNaN(*v) {
				return s, fmt.Errorf("%s is not a number", queueColumns()[3+i])
			}
		}
	}
	return s, s.plausible(levels)
}
