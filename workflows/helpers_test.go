package workflows_test

import (
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/drover-run/drover/contract"
)

type converterArgs = converter.EncodedValues

const anything = mock.Anything

func errWorkflowNotFound() error { return &temporal.UnknownExternalWorkflowExecutionError{} }

// newEnvironment returns a test environment for a workflow ID. It extends the
// timeouts: on a machine that is short of CPU, milliseconds take seconds, and
// no test depends on that.
func newEnvironment(id string) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(discardLogger()))
	suite.SetDisableRegistrationAliasing(true)
	env := suite.NewTestWorkflowEnvironment()
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: 20 * time.Second})
	env.SetTestTimeout(20 * time.Second)
	env.SetStartWorkflowOptions(startOptions(id))
	return env
}

func startOptions(id string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{ID: id, TaskQueue: contract.ControlQueue}
}
