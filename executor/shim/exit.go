package shim

// Exit codes of drover-shim. They are a contract with the drivers.
const (
	ExitDone      = 0  // the task's end was written
	ExitUsage     = 2  // wrong arguments
	ExitOrder     = 3  // the order is missing, truncated or not supported; nothing was run
	ExitNoJournal = 4  // read: there is no journal
	ExitExists    = 5  // a journal exists already; nothing was run
	ExitLocked    = 6  // another shim runs in the directory; nothing was run
	ExitFiles     = 7  // the directory can not be used; nothing was run
	ExitEnded     = 8  // read --follow: the shim ended without the task's end
	ExitNoPort    = 9  // await-port: nothing listens
	ExitNoShim    = 10 // hand: no shim accepts the order; connect: no step waits
	ExitNoFile    = 11 // pack: there is no such file
	ExitDamaged   = 12 // read: the journal is damaged, and the task continues
	ExitSpoiled   = 13 // read: the journal is damaged, and nothing is written to it any more
)

// Done is the line that stop, unpack, read --verify and await-port with a count
// print on success, besides ExitDone: a call whose connection broke off may look
// like a program that ended with 0.
const Done = "done\n"
