package account

import (
	"fmt"
)

// ElsewhereError is a LostError of which no changelog was lost here: the state folder was
// written for another raw topic, and the group has processed nothing of this one. A cluster
// that keeps its topics in memory looks so after it was started again.
type ElsewhereError struct {
	Raw  string
	gone bool // the raw topic is missing, else it is another one under its name
	lost *LostError
}

// Error says whose the folder is, and what to do.
func (e *ElsewhereError) Error() string {
	is := "is not the topic that the state folder was written for"
	if e.gone {
		is = "is missing"
	}
	return fmt.Sprintf("the state folder %s is of another cluster or of an earlier raw topic: %s "+
		"%s, and group %s has processed nothing here. If the cluster is the wrong one, or "+
		"topics.raw misspelt, correct that. If it was made again, remove the folder with "+
		"\"geodither state reset --discard-account\": what each user has spent so far then "+
		"counts no more, and adds to what is spent from there on", e.lost.Folder, e.Raw, is,
		e.lost.Group)
}

// Unwrap returns the LostError.
func (e *ElsewhereError) Unwrap() error { return e.lost }
