package vllmsim

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// BenchmarkStream is what one event of a stream costs when nothing waits: engine, encoding, socket and a reader
// that only counts bytes.
func BenchmarkStream(b *testing.B) {
	s := New(Config{Engine: Model{RunningCap: 1, TokenBudget: 2048, KVTokens: 16 * b.N * 2}, MaxModelLen: 2*b.N + 100})
	defer s.Close()
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	body := fmt.Sprintf(`{"messages":[{"role":"user","content":"the of and"}],"stream":true,"max_tokens":%d}`, b.N)
	b.ResetTimer()
	resp, err := http.Post(web.URL+"/v1/chat/completions", "application/json", strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	defer resp.Body.Close()
	n, err := io.Copy(io.Discard, resp.Body)
	if err != nil || n < int64(100*b.N) {
		b.Fatalf("%d bytes: %v", n, err)
	}
}

// BenchmarkStep is what a step of a full engine costs: 106 tokens.
func BenchmarkStep(b *testing.B) {
	m := DefaultModel()
	m.Base, m.PerDecode, m.PerPrefill, m.PerAdmission, m.Window = 0, 0, 0, 0, 0
	m.KVTokens = m.RunningCap * (b.N + 1 + blockSize)
	e := NewEngine(m)
	defer e.Close()
	var streams []*Stream
	for range m.RunningCap {
		s, err := e.Submit(b.Context(), Request{PromptTokens: 1, OutputTokens: b.N})
		if err != nil {
			b.Fatal(err)
		}
		streams = append(streams, s)
	}
	b.ResetTimer()
	for _, s := range streams {
		for range b.N {
			if _, err := s.Next(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
	}
}

func BenchmarkMetricsPage(b *testing.B) {
	s := New(Config{})
	defer s.Close()
	for b.Loop() {
		s.page(s.process())
	}
}
