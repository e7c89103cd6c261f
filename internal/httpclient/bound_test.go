package httpclient

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	promconfig "github.com/prometheus/common/config"
)

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return f(req) }

// A request ends leaveAfter after its context, whatever goes on; what came too late is closed; and those that go on
// are counted, up and down.
func TestBound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hang := make(chan struct{})
		late := &closing{}
		rt := Bound(roundTripper(func(*http.Request) (*http.Response, error) {
			<-hang
			return &http.Response{Body: late}, nil
		}))
		ask := func() error {
			ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errGone)
			defer cancel()
			return get(ctx, rt, "http://h")
		}
		for range MaxLeft {
			began := time.Now()
			err := ask()
			var left *LeftError
			if took := time.Since(began); !errors.As(err, &left) || !errors.Is(err, errGone) || took != time.Second+leaveAfter {
				t.Fatalf("%T %v after %v", err, err, took)
			}
		}
		if err := ask(); !IsFault(err) {
			t.Errorf("with %d left behind: %v", MaxLeft, err)
		}
		close(hang)
		synctest.Wait()
		if late.closed.Load() != MaxLeft {
			t.Errorf("%d answers that came too late are closed, want %d", late.closed.Load(), MaxLeft)
		}
		if err := ask(); err != nil {
			t.Errorf("once none is left behind: %v", err)
		}
	})
}

var errGone = errors.New("gone")

// closing counts how often it is closed.
type closing struct {
	io.Reader
	closed atomic.Int32
}

func (c *closing) Close() error { c.closed.Add(1); return nil }

// One that ends with its context is not left behind, and its own error is told.
func TestBoundWaitsForWhoEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		rt := Bound(roundTripper(func(req *http.Request) (*http.Response, error) {
			<-req.Context().Done()
			time.Sleep(leaveAfter - 1)
			return nil, errGone
		}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := get(ctx, rt, "http://h"); err != errGone { //nolint:errorlint // as it is
			t.Error(err)
		}
	})
}

func TestBoundPanic(t *testing.T) {
	rt := Bound(roundTripper(func(*http.Request) (*http.Response, error) { panic("oops") }))
	if err := get(t.Context(), rt, "http://h"); !IsFault(err) || !strings.Contains(err.Error(), "panic: oops") {
		t.Error(err)
	}
}

// A pipe that nobody writes to, in the place of any file, holds up neither the making of a client, nor a request
// beyond its end, nor the closing of what is idle.
func TestPipesInPlaceOfFiles(t *testing.T) {
	for name, config := range map[string]func(*promconfig.HTTPClientConfig, string){
		"a key":         func(c *promconfig.HTTPClientConfig, f string) { c.BearerTokenFile = f },
		"an authority":  func(c *promconfig.HTTPClientConfig, f string) { c.TLSConfig.CAFile = f },
		"a certificate": func(c *promconfig.HTTPClientConfig, f string) { c.TLSConfig.CertFile, c.TLSConfig.KeyFile = f, f },
		"a client's key": func(c *promconfig.HTTPClientConfig, f string) {
			c.OAuth2 = &promconfig.OAuth2{ClientID: "c", ClientSecretFile: f, TokenURL: "http://127.0.0.1:9"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			pipe := filepath.Join(t.TempDir(), "pipe")
			if err := syscall.Mkfifo(pipe, 0o600); err != nil {
				t.Skip(err)
			}
			var c promconfig.HTTPClientConfig
			config(&c, pipe)
			rt, err := New(c, "test", dial)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			defer cancel()
			var left *LeftError
			if err := get(ctx, rt, "http://127.0.0.1:9"); !errors.As(err, &left) {
				t.Errorf("%T %v", err, err)
			}
			closeIdle(rt)
			w, err := os.OpenFile(pipe, os.O_RDWR, 0) // lets go who waits
			if err == nil {
				_ = os.Remove(pipe)
				w.Close()
			}
		})
	}
}

// An endpoint of tokens that does not answer is given up after tokenTimeout, twice, since the library asks once more
// in another way: it asks without an end, and all other requests wait for the same token.
func TestTokenEndpointThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dialled []string
		rt, err := New(promconfig.HTTPClientConfig{OAuth2: &promconfig.OAuth2{ClientID: "c", ClientSecret: "s", TokenURL: "http://token"}}, "test",
			func(_ context.Context, _, address string) (net.Conn, error) {
				dialled = append(dialled, address)
				client, server := net.Pipe()
				go io.Copy(io.Discard, server) //nolint:errcheck // it takes all and says nothing
				return client, nil
			}, promconfig.WithKeepAlivesDisabled())
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		err = get(t.Context(), rt, "http://h")
		if took := time.Since(began); took != 2*tokenTimeout || err == nil || len(dialled) == 0 || dialled[0] != "token:80" {
			t.Errorf("%v after %v, having dialled %v", err, took, dialled)
		}

		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var left *LeftError
		if err := get(ctx, rt, "http://h"); !errors.As(err, &left) {
			t.Errorf("%T %v, want that it is left behind", err, err)
		}
		time.Sleep(2 * tokenTimeout)
	})
}
