//go:build linux

package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"
)

// childArgument makes this program play a role instead of measuring.
const childArgument = "child"

// The processors of the two sides.
const (
	serverCPU = 0
	clientCPU = 1
)

// role is what a child does: it gets its configuration, calls ready with what its parent must know, and
// returns its result.
type role func(config json.RawMessage, ready func(string)) (result any, err error)

func roles() map[string]role {
	return map[string]role{"server": serverRole, "prober": proberRole, "bare": bareRole, "neighbour": neighbourRole}
}

// runChild speaks with the parent over standard input and output: a line of configuration in, a line out when
// ready, a line in to go, the result out.
func runChild(name string) error {
	in := bufio.NewReader(os.Stdin)
	config, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
	}
	play, ok := roles()[name]
	if !ok {
		return fmt.Errorf("no such role")
	}
	if err := growFiles(); err != nil {
		return err
	}
	result, err := play(config, func(what string) {
		fmt.Println(what)
		_, _ = in.ReadString('\n') // a closed pipe means go, too
	})
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}

// growFiles makes the process's table of files as large as it will ever be. The kernel doubles it when it is full,
// and stops the thread that asked for 10 to 20 ms, which would be most of what is measured; a daemon has that
// behind it after its first minute.
func growFiles() error {
	const last = 8191
	if err := unix.Dup3(0, last, 0); err != nil {
		return fmt.Errorf("growing the table of files: %w", err)
	}
	return unix.Close(last)
}

// child is a process of this program in a role.
type child struct {
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
	said    string // with what it reported to be ready
}

// startChild starts a role on one processor and waits until it is ready.
func startChild(name string, cpu int, config any) (*child, error) {
	c := &child{command: exec.Command("/proc/self/exe", childArgument, name)}
	c.command.Stderr = os.Stderr
	stdin, err := c.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = stdin, bufio.NewReader(stdout)
	if err := startOn(c.command, cpu); err != nil {
		return nil, fmt.Errorf("starting %s: %w", name, err)
	}
	if err := json.NewEncoder(c.in).Encode(config); err != nil {
		return nil, fmt.Errorf("configuring %s: %w", name, err)
	}
	if c.said, err = c.out.ReadString('\n'); err != nil {
		return nil, fmt.Errorf("%s did not start: %w", name, err)
	}
	c.said = strings.TrimSpace(c.said)
	return c, nil
}

// startOn starts a command on one processor. A process inherits the affinity of the thread that forks it; Go
// then sees one processor and sets GOMAXPROCS to 1.
func startOn(command *exec.Cmd, cpu int) error {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	one.Set(cpu)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		return err
	}
	defer unix.SchedSetaffinity(0, &before)
	return command.Start()
}

// finish lets the child go, and waits for its result.
func (c *child) finish(result any) error {
	if _, err := fmt.Fprintln(c.in, "go"); err != nil {
		return err
	}
	if err := json.NewDecoder(c.out).Decode(result); err != nil {
		c.kill()
		return fmt.Errorf("%s gave no result: %w", c.command.Args[2], err)
	}
	return c.command.Wait()
}

func (c *child) kill() {
	_ = c.command.Process.Kill()
	_ = c.command.Wait()
}
