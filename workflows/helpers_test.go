package workflows_test

import (
	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"github.com/drover-run/drover/contract"
)

type converterArgs = converter.EncodedValues

const anything = mock.Anything

func errGone() error { return &temporal.UnknownExternalWorkflowExecutionError{} }

func startOptions(id string) client.StartWorkflowOptions {
	return client.StartWorkflowOptions{ID: id, TaskQueue: contract.ControlQueue}
}
