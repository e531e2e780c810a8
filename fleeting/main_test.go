package fleeting_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"testing"

	"github.com/drover-run/drover/fleeting"
)

// The test binary is also the guard, a plugin, and a host that tests kill.
const (
	roleVariable = "FLEETING_TEST_ROLE"
	optsVariable = "FLEETING_TEST_OPTIONS"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == fleeting.GuardCommand {
		os.Exit(fleeting.Guard(context.Background(), os.Args[2:], os.Stdout, os.Stderr))
	}
	switch os.Getenv(roleVariable) {
	case "host":
		os.Exit(hostMain())
	case "":
		os.Exit(m.Run())
	}
}

// hostMain drives a group until it is killed.
func hostMain() int {
	var o fleeting.Options
	if err := json.Unmarshal([]byte(os.Getenv(optsVariable)), &o); err != nil {
		fmt.Println(err)
		return 1
	}
	h, err := fleeting.Open(context.Background(), o)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	if _, err := h.Increase(context.Background(), 2); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Println("ready")
	select {}
}
