// Sshserver is an SSH server for tests: it runs commands with the shell for
// every client with the password, and has a new host key at every start.
package main

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"

	"golang.org/x/crypto/ssh"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:0", "address to listen on")
	addressFile := flag.String("address-file", "", "file to write the address to")
	flag.Parse()
	if err := serve(*listen, *addressFile, os.Getenv("SSH_PASSWORD")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func serve(listen, addressFile, password string) error {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return fmt.Errorf("make a host key: %w", err)
	}
	signer, err := ssh.NewSignerFromKey(key)
	if err != nil {
		return fmt.Errorf("make a host key: %w", err)
	}
	config := &ssh.ServerConfig{PasswordCallback: func(_ ssh.ConnMetadata, given []byte) (*ssh.Permissions, error) {
		if password == "" || subtle.ConstantTimeCompare(given, []byte(password)) != 1 {
			return nil, errors.New("wrong password")
		}
		return nil, nil
	}}
	config.AddHostKey(signer)
	l, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	if addressFile != "" {
		if err := os.WriteFile(addressFile+".new", []byte(l.Addr().String()), 0o600); err != nil {
			return fmt.Errorf("write the address: %w", err)
		}
		if err := os.Rename(addressFile+".new", addressFile); err != nil {
			return fmt.Errorf("write the address: %w", err)
		}
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			return fmt.Errorf("accept: %w", err)
		}
		go handle(conn, config)
	}
}

func handle(conn net.Conn, config *ssh.ServerConfig) {
	defer func() { _ = conn.Close() }()
	_, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests)
	for c := range channels {
		if c.ChannelType() != "session" {
			_ = c.Reject(ssh.UnknownChannelType, "sessions only")
			continue
		}
		channel, requests, err := c.Accept()
		if err != nil {
			return
		}
		go session(channel, requests)
	}
}

func session(channel ssh.Channel, requests <-chan *ssh.Request) {
	defer func() { _ = channel.Close() }()
	for r := range requests {
		if r.Type != "exec" {
			_ = r.Reply(false, nil)
			continue
		}
		var command struct{ Text string }
		if err := ssh.Unmarshal(r.Payload, &command); err != nil {
			return
		}
		_ = r.Reply(true, nil)
		cmd := exec.Command("/bin/sh", "-c", command.Text)
		cmd.Stdout, cmd.Stderr = channel, channel.Stderr()
		if stdin, err := cmd.StdinPipe(); err == nil { // not waited for: it may never end
			go func() { _, _ = io.Copy(stdin, channel); _ = stdin.Close() }()
		}
		var status struct{ Code uint32 }
		if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
			status.Code = 127
		} else if cmd.ProcessState != nil {
			status.Code = uint32(cmd.ProcessState.ExitCode())
		}
		_, _ = channel.SendRequest("exit-status", false, ssh.Marshal(status))
		return
	}
}
