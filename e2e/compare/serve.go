//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/llm-prober/llm_prober/e2e/compare/mock"
)

// serveMock is the mock's process: it takes its configuration from standard input, prints its URL, serves until
// standard input ends, and prints its ledger.
func serveMock() error {
	in := bufio.NewReader(os.Stdin)
	config, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	var s mock.Server
	if err := json.Unmarshal(config, &s.Config); err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	if err := growFiles(); err != nil {
		return err
	}
	listener, err := mock.Listen()
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	fmt.Println("http://" + listener.Addr().String())
	if _, err := io.Copy(io.Discard, in); err != nil {
		return err
	}
	listener.Close()
	if err := <-served; err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(s.Ledger())
}

// growFiles makes the process's table of files as large as it will ever be: the kernel doubles it when it is full,
// and stops the thread that asked for 10 to 20 ms.
func growFiles() error {
	const last = 4095
	if err := unix.Dup3(0, last, 0); err != nil {
		return fmt.Errorf("growing the table of files: %w", err)
	}
	return unix.Close(last)
}

// mockServer is a mock in a process of its own.
type mockServer struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	url     string
}

func startMock(config mock.Config, cpu int) (*mockServer, error) {
	m := &mockServer{command: exec.Command("/proc/self/exe", "mock")}
	m.command.Stderr = os.Stderr
	m.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := m.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := m.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	m.in, m.out = stdin, bufio.NewReader(stdout)
	if err := startOn(m.command, cpu); err != nil {
		return nil, fmt.Errorf("starting the mock: %w", err)
	}
	if err := json.NewEncoder(m.in).Encode(config); err != nil {
		m.kill()
		return nil, fmt.Errorf("configuring the mock: %w", err)
	}
	line, err := m.out.ReadString('\n')
	if err != nil {
		m.kill()
		return nil, fmt.Errorf("the mock did not start: %w", err)
	}
	m.url = strings.TrimSpace(line)
	return m, nil
}

// finish ends the mock and returns its ledger.
func (m *mockServer) finish() (ledger []mock.Account, err error) {
	if err := m.in.Close(); err != nil {
		return nil, err
	}
	if err := json.NewDecoder(m.out).Decode(&ledger); err != nil {
		m.kill()
		return nil, fmt.Errorf("the mock gave no ledger: %w", err)
	}
	return ledger, m.command.Wait()
}

func (m *mockServer) kill() {
	_ = m.command.Process.Kill()
	_ = m.command.Wait()
}
