"""Journal entries: the facts of a run in order, in the past tense, as one tagged union.

An entry does not contain its position: it stands one behind the entry before. Only `RunMerged`
contains its own, since a surviving run continues behind both journals. An entry is enough for
`fold`: folding a journal needs no plan, no store and no LangGraph.
"""

from crewlog.state.journal.batch import *
from crewlog.state.journal.call import *
from crewlog.state.journal.change import *
from crewlog.state.journal.checkpoint import *
from crewlog.state.journal.component import *
from crewlog.state.journal.conversation import *
from crewlog.state.journal.entry import *
from crewlog.state.journal.interrupt import *
from crewlog.state.journal.output import *
from crewlog.state.journal.prompt import *
from crewlog.state.journal.run import *
from crewlog.state.journal.step import *
from crewlog.state.journal.union import *
