"""Writes IPython's history when the notebook pauses, so that short cells don't wait for the disk.

IPython wakes its saving thread in each cell. That thread writes one line and waits for the disk three times.
It holds a lock that the next cell needs, and takes the interpreter from the cell when it goes on: a third of
what a short cell took. Here it sleeps until no cell has come or ended for a moment, and writes all lines at once;
while cells follow each other, twice a second. The moment is longer than the pause in which a fork is made
(kernel/session/rest.c), which would wait for the disk, too. It waits for the disk without the lock. During a long cell its
line is written, as in IPython. A reader of the history has the rest written first, as in IPython.

A session of the history begins with its first line, or when somebody asks for its number. Its row waits for
the disk, too, which was a tenth of a main worker's start. So a kernel that ran nothing leaves no session.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import typing as t

from IPython.core.history import HistoryManager, HistorySavingThread

from holdfast.base.usage import aside

# Longer than a short recorded cell takes, which would be written while the next one begins, and than the pause
# before a fork. Not much longer: an assistant reads what is written while a cell holds the GIL.
_PAUSE_SECONDS = 0.1
_PAUSES_MAX = 5


class History(HistoryManager):
    """Its thread is woken by the first line of several."""

    _awake = False  # the thread has lines to write, and will look for more before it does
    _only_reads = False  # not by `enabled`, which is the user's, and is carried like other options

    def __init__(self, **kwargs: t.Any):
        self._beginning = threading.RLock()
        self._writing = threading.RLock()  # held before every other lock
        self._due = False  # a session that has no number yet
        self._moves = 0  # cells that have come, and cells that have ended
        self._number = 0
        super().__init__(**kwargs)
        self._own_pace = self.db_cache_size <= 1  # unless the user has chosen one
        if self._own_pace:
            self.set_trait("db_cache_size", sys.maxsize)  # IPython doesn't wake it

    def keep(self) -> None:
        """Go on in the profile's file, if there was none before. Another manager would copy 200
        of the fork server's pages."""
        if not self.enabled:
            return
        self.db.close()
        self.hist_file = self._get_hist_file_name()
        self.init_db()
        self.new_session()
        if self.hist_file != ":memory:":  # else the file is broken
            thread = HistorySavingThread(self)
            try:
                thread.start()
            except RuntimeError as error:  # lines are written when the session ends
                self.log.error("History is saved at the end only: %s", error)
            else:
                self.save_thread, self.using_thread = thread, True

    @property
    def session_number(self) -> int:
        """The number of the session that runs; 0 if there is none."""
        self._begin(self.db)
        return self._number

    @session_number.setter
    def session_number(self, number: int) -> None:
        self._due, self._number = False, number

    def new_session(self, conn: t.Any = None) -> None:
        """Begin a session as the original does, but later."""
        if conn is None:
            self._due = self.enabled
        else:
            super().new_session(conn)

    @contextlib.contextmanager
    def at_rest(self) -> t.Iterator[None]:
        """While no thread is in the database, nor holds a lock of it: for a fork. IPython's own hook for forks would
        wait for the thread to end, which waits for these locks."""
        with self._writing, self.db_input_cache_lock, self.db_output_cache_lock, self._beginning:
            thread = self.save_thread
            if thread is not None:
                thread.stop = lambda: None
            try:
                yield
            finally:
                if thread is not None:
                    del thread.stop
                self.save_thread = thread

    def only_read(self) -> None:
        """In a fork for one cell: the notebook's own process writes its lines."""
        self._only_reads, self._due = True, False

    def resume(self) -> None:
        """In a fork that goes on in its dead process's place: with a thread of its own. Lines that
        waited at the fork were the dead one's to write, which it does within a moment."""
        self.db_input_cache.clear()
        self._awake = False
        if self.enabled and self.using_thread:
            self.save_thread = HistorySavingThread(self)
            self.save_thread.start()

    def _begin(self, conn: t.Any) -> None:
        with self._beginning:
            if self._due:
                import sqlite3  # which not every Python has

                self._due = False
                try:
                    super().new_session(conn)
                except sqlite3.OperationalError as error:  # locked for long, or not to be written
                    self.log.error("History will not be saved in %s: %s", self.hist_file, error)
                    self.set_trait("enabled", False)

    def end_session(self) -> None:
        """As the original, where there is one."""
        if not self._due or self.db_input_cache:
            super().end_session()

    def store_inputs(self, line_num: int, source: str, source_raw: str | None = None) -> None:
        """As the original, where a cell's number is its place in `In`. A cell whose process died, or that
        was refused, has an empty one; one that runs again under its number (--repeat, %holdfast rerun) has its own."""
        parsed, raw = self.input_hist_parsed, self.input_hist_raw  # traits: each look is two calls
        if raw[line_num : line_num + 1] == [
            (source if source_raw is None else source_raw).rstrip("\n")
        ]:
            return
        if len(raw) < line_num:
            missing = [""] * (line_num - len(raw))
            parsed.extend(missing)
            raw.extend(missing)
        count = len(raw)
        super().store_inputs(line_num, source, source_raw)
        if line_num < count < len(raw):  # other cells have run since
            for lines in (parsed, raw):
                lines[line_num] = lines.pop()
        self._moves += 1
        self._wake()

    def store_output(self, *args: t.Any, **kwargs: t.Any) -> None:
        """As the original, of which only a logger of outputs needs anything."""
        super().store_output(*args, **kwargs)
        self._moves += 1
        if self.db_log_output:
            self._wake()

    def _wake(self) -> None:
        if self.save_thread is None and hasattr(self, "_restart_thread_if_stopped"):
            self._restart_thread_if_stopped()  # after a fork of the user's
            self._awake = False
        if self._own_pace and not self._awake and self.save_thread is not None:
            self._awake = True
            self.save_flag.set()

    def writeout_cache(self, conn: t.Any = None) -> None:
        """As the original; the thread, which alone has a connection of its own, waits before."""
        if conn is not None and self._own_pace:
            # The manager has no thread, and no flag of one, while IPython's hook for forks is at work.
            flag = getattr(threading.current_thread(), "save_flag", None) or self.save_flag
            for _ in range(_PAUSES_MAX):
                moves = self._moves
                # Set when the thread is to end.
                if flag.wait(_PAUSE_SECONDS) or self._moves == moves:
                    break
            self._awake = False  # before it looks: a line that comes now wakes it again
        if not self.enabled or self._only_reads:
            return
        with aside.counted(), self._writing:
            with self.db_input_cache_lock:
                lines = list(self.db_input_cache)
                self.db_input_cache.clear()
            if lines:
                conn = self.db if conn is None else conn
                self._begin(conn)
                self._write(lines, conn)
            if self.db_output_cache:
                super().writeout_cache(conn)

    def _write(self, lines: list[tuple[int, str, str]], conn: t.Any) -> None:
        """As the original's part for the lines: if another process has used this session's number,
        they go to a new session. A line may be there already: the process that ran the cell first wrote
        it, and died."""
        import sqlite3

        of_session = "SELECT line, source, source_raw FROM history WHERE session = ?"
        for is_last in (False, False, True):
            rows = [(self.session_number, *line) for line in lines]
            try:
                with conn:
                    conn.executemany("INSERT INTO history VALUES (?, ?, ?, ?)", rows)
                return
            except sqlite3.IntegrityError:
                if is_last:
                    return
                there = set(conn.execute(of_session, (self.session_number,)))
                if not there.isdisjoint(lines):
                    lines = [line for line in lines if line not in there]
                    continue
                self.new_session(conn)
                print(
                    "ERROR! Session/line number was not unique in database. History logging moved"
                    f" to new session {self.session_number}"
                )
