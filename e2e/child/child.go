//go:build linux

// Package child makes a program play the two sides of a measurement in processes of their own, each on its own
// processor.
package child

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// argument makes a program play a role instead of measuring.
const argument = "child"

// The processors of the two sides.
const (
	ServerCPU = 0
	ClientCPU = 1
)

// Role is what a child does: it gets its configuration, calls ready with what its parent must know, and
// returns its result.
type Role func(config json.RawMessage, ready func(string)) (result any, err error)

// Played plays the role that the command line, without the program's name, asks for; false if it asks for none.
func Played(arguments []string, roles map[string]Role) (bool, error) {
	if len(arguments) != 2 || arguments[0] != argument {
		return false, nil
	}
	play, ok := roles[arguments[1]]
	if !ok {
		return true, fmt.Errorf("no such role: %s", arguments[1])
	}
	if err := run(play); err != nil {
		return true, fmt.Errorf("%s: %w", arguments[1], err)
	}
	return true, nil
}

// run speaks with the parent over standard input and output: a line of configuration in, a line out when
// ready, a line in to go, the result out.
func run(play Role) error {
	in := bufio.NewReader(os.Stdin)
	config, err := in.ReadBytes('\n')
	if err != nil {
		return fmt.Errorf("reading the configuration: %w", err)
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

// Child is a process of this program in a role.
type Child struct {
	Said string // with what it reported to be ready

	role    string
	command *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

// Start starts a role on one processor and waits until it is ready. The child does not outlive this process.
func Start(role string, cpu int, config any) (*Child, error) {
	c := &Child{role: role, command: exec.Command("/proc/self/exe", argument, role)}
	c.command.Stderr = os.Stderr
	c.command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stdin, err := c.command.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := c.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	c.in, c.out = stdin, bufio.NewReader(stdout)
	if err := StartOn(c.command, cpu); err != nil {
		return nil, fmt.Errorf("starting %s: %w", role, err)
	}
	if err := json.NewEncoder(c.in).Encode(config); err != nil {
		c.Kill()
		return nil, fmt.Errorf("configuring %s: %w", role, err)
	}
	if c.Said, err = c.out.ReadString('\n'); err != nil {
		c.Kill()
		return nil, fmt.Errorf("%s did not start: %w", role, err)
	}
	c.Said = strings.TrimSpace(c.Said)
	return c, nil
}

// PID is its process id.
func (c *Child) PID() int { return c.command.Process.Pid }

// Finish lets the child go, and waits for its result.
func (c *Child) Finish(result any) error {
	if _, err := fmt.Fprintln(c.in, "go"); err != nil {
		return err
	}
	if err := json.NewDecoder(c.out).Decode(result); err != nil {
		c.Kill()
		return fmt.Errorf("%s gave no result: %w", c.role, err)
	}
	return c.command.Wait()
}

// Kill ends it without a result.
func (c *Child) Kill() {
	_ = c.command.Process.Kill()
	_ = c.command.Wait()
}

// StartOn starts a command on some processors; on all if none are named. A process inherits the affinity of the
// thread that forks it; Go then sees so many processors and sets GOMAXPROCS to their number.
func StartOn(command *exec.Cmd, cpus ...int) error {
	if len(cpus) == 0 {
		return command.Start()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, some unix.CPUSet
	if err := unix.SchedGetaffinity(0, &before); err != nil {
		return err
	}
	for _, cpu := range cpus {
		some.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &some); err != nil {
		return err
	}
	return errors.Join(command.Start(), unix.SchedSetaffinity(0, &before))
}
