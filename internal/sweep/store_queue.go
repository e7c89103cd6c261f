package sweep

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
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

// readQueue reads queue.csv. A torn last line is left out.
func readQueue(data []byte) (samples []QueueSample, err error) {
	if whole := bytes.LastIndexByte(data, '\n'); whole+1 < len(data) {
		data = data[:whole+1]
	}
	reader := csv.NewReader(bytes.NewReader(data))
	header, err := reader.Read()
	if err == io.EOF {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if !slices.Equal(header, queueColumns()) {
		return nil, fmt.Errorf("its columns are %s, not %s", strings.Join(header, ","), strings.Join(queueColumns(), ","))
	}
	for {
		fields, err := reader.Read()
		if err == io.EOF {
			return samples, nil
		}
		if err != nil {
			return nil, err
		}
		s, err := readSample(fields)
		if err != nil {
			line, _ := reader.FieldPos(0)
			return nil, fmt.Errorf("line %d: %w", line, err)
		}
		samples = append(samples, s)
	}
}

func readSample(fields []string) (s QueueSample, err error) {
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
		}
	}
	return s, nil
}
