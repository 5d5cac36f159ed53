package task

// State is where a task is in its life; the package's documentation has a picture.
type State uint8

// The states of a task.
const (
	Created    State = iota // made, not run yet
	Fencing                 // shutting out earlier owners, reading the committed offset
	Restoring               // the store catches up with the changelog
	Running                 // reading and processing
	Committing              // a transaction is being written, perhaps beside the next records
	Suspended               // something went wrong; waiting to fence again
	Closed                  // Run has returned
)

var stateNames = [...]string{
	"created", "fencing", "restoring", "running", "committing", "suspended", "closed",
}

// String names the state in lower case.
func (s State) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return "unknown"
}

// transitions[from] are the states that may follow.
//
//	from \ to    fencing restoring running committing suspended closed
//	created         ×                                              ×
//	fencing                  ×                           ×         ×
//	restoring                         ×                  ×         ×
//	running                                    ×         ×         ×
//	committing                        ×                  ×         ×
//	suspended       ×                                              ×
//	closed
var transitions = [...][]State{
	Created:    {Fencing, Closed},
	Fencing:    {Restoring, Suspended, Closed},
	Restoring:  {Running, Suspended, Closed},
	Running:    {Committing, Suspended, Closed},
	Committing: {Running, Suspended, Closed},
	Suspended:  {Fencing, Closed},
	Closed:     {},
}
