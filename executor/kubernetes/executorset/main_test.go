package executorset_test

import (
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"

	"github.com/drover-run/drover/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.Parallel(4)           // the tests mostly wait for the cluster
	klog.SetLogger(klog.Logger{}) // discards: client-go logs an error for each canceled call
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*clientConnReadLoop).run"))
}
