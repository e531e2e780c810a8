package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/drover-run/drover/contract"
)

// workflowRetention is how long Temporal keeps closed workflows in a namespace
// that Drover creates. The records keep runs for as long as the retention says.
const workflowRetention = 72 * time.Hour

// setUpNamespace creates the namespace and its search attributes if they do not
// exist. The first time it needs the rights of an operator.
func setUpNamespace(ctx context.Context, c client.Client, namespace string) error {
	_, err := c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace:                        namespace,
		Description:                      "runs of Drover",
		WorkflowExecutionRetentionPeriod: durationpb.New(workflowRetention),
	})
	var exists *serviceerror.NamespaceAlreadyExists
	if err != nil && !errors.As(err, &exists) {
		return fmt.Errorf("create the temporal namespace %s: %w", namespace, err)
	}
	return addAttributes(ctx, c, namespace)
}

// addAttributes adds missing search attributes: a namespace of an older build
// lacks newer ones.
func addAttributes(ctx context.Context, c client.Client, namespace string) error {
	there, err := c.OperatorService().ListSearchAttributes(ctx, &operatorservice.ListSearchAttributesRequest{Namespace: namespace})
	if err != nil {
		return fmt.Errorf("list the search attributes: %w", err)
	}
	missing := contract.Attributes()
	for name := range there.GetCustomAttributes() {
		delete(missing, name)
	}
	if len(missing) == 0 {
		return nil
	}
	_, err = c.OperatorService().AddSearchAttributes(ctx, &operatorservice.AddSearchAttributesRequest{
		Namespace: namespace, SearchAttributes: missing,
	})
	var known *serviceerror.AlreadyExists
	if err != nil && !errors.As(err, &known) {
		return fmt.Errorf("add the search attributes: %w", err)
	}
	return nil
}
