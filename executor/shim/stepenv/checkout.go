package stepenv

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"slices"

	"github.com/drover-run/drover/executor/shim/checkout"
	"github.com/drover-run/drover/executor/shim/process"
	"github.com/drover-run/drover/run"
)

// CheckoutCommand is the command of drover-shim that checks out a repository.
const CheckoutCommand = "checkout"

// checksOut reports whether a step of the task checks out a repository.
func (e *Env) checksOut() bool {
	return slices.ContainsFunc(e.Order.Definition.Steps, func(s run.StepDef) bool { return s.Checkout != nil })
}

// prepareCheckout returns the command of a checkout step. Its stdin has the request, with
// the credentials.
func (e *Env) prepareCheckout(c process.Command, step run.StepDef) (process.Command, string, error) {
	request := checkout.Request{
		Checkout: *step.Checkout, Dir: c.Dir, Shared: e.Order.Definition.SharesWorkingDir(),
	}
	if name := step.Checkout.Credentials; name != "" {
		if request.Secret = e.Order.Definition.Secret(name); request.Secret == "" {
			return c, "", fmt.Errorf("the secret %s of the checkout is empty", name)
		}
	}
	if step.Checkout.Reuse {
		request.Store = e.Order.GitStores[step.Checkout.Repository]
	}
	text, err := json.Marshal(request) //nolint:gosec // for the stdin of the checkout alone
	if err != nil {
		return c, "", fmt.Errorf("encode the checkout: %w", err)
	}
	program := "/proc/self/exe" // the user of the step may not reach the path
	if runtime.GOOS != "linux" {
		if program, err = os.Executable(); err != nil {
			return c, "", fmt.Errorf("find drover-shim: %w", err)
		}
	}
	r, w, err := os.Pipe()
	if err != nil {
		return c, "", fmt.Errorf("create a pipe: %w", err)
	}
	go func() { // it ends when the process has read it, or has ended
		_, _ = w.Write(text)
		_ = w.Close()
	}()
	c.Path, c.Args, c.Stdin = program, []string{"drover-shim", CheckoutCommand}, r
	c.Env, c.User = List(e.Variables(step, "")), e.User
	return c, "", nil
}
