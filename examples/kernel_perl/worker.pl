#!/usr/bin/perl
# worker.pl - a worker in Perl, written from docs/control-protocol.md alone.
#
# A cell is a text for `eval`, and its value the result. Nothing is saved: a recorded cell runs
# in-process, and an isolated one begins with no variables.
use strict;
use warnings;
use B;
use Config;
use JSON::PP;
use POSIX qw(:signal_h :sys_wait_h dup2 _exit);
use Time::HiRes qw(clock_gettime CLOCK_MONOTONIC);

# Perl has no function that receives descriptors: Linux's numbers of recvmsg(2).
my $RECVMSG = { x86_64 => 47, aarch64 => 212 }->{ (split /-/, $Config{archname})[0] }
    or die "the number of recvmsg(2) isn't known here\n";
my $JSON = JSON::PP->new->utf8;

# ---- msgpack: a reference to a text is bin, a blessed one a bool ------------------------------
sub str { utf8::encode(my $text = shift); return pack('CN', 0xdb, length $text) . $text }

sub packed {
    my ($value) = @_;
    my $kind = ref $value;
    return pack('CN', 0xc6, length $$value) . $$value if $kind eq 'SCALAR';
    return pack('CN', 0xdd, scalar @$value) . join '', map { packed($_) } @$value if $kind eq 'ARRAY';
    return pack('CN', 0xdf, scalar keys %$value)
        . join '', map { str($_) . packed($value->{$_}) } keys %$value if $kind eq 'HASH';
    return pack 'C', $value ? 0xc3 : 0xc2 if $kind;
    return str($value) if B::svref_2object(\$value)->FLAGS & B::SVf_POK;
    return pack 'Cq>', 0xd3, $value;
}

# How a head goes on: a number, or the size of what follows.
my %HEADS = (c4 => 'C', c5 => 'n', c6 => 'N', ca => 'f>', cb => 'd>', cc => 'C', cd => 'n', ce => 'N',
    cf => 'Q>', d0 => 'c', d1 => 's>', d2 => 'l>', d3 => 'q>', d9 => 'C', da => 'n', db => 'N',
    dc => 'n', dd => 'N', de => 'n', df => 'N');

sub cut { my ($in, $size) = @_; return substr $$in, 0, $size, '' }
sub text { utf8::decode(my $text = cut(@_)); return $text }
sub several { my ($in, $count) = @_; return map { unpacked($in) } 1 .. $count }

sub unpacked {
    my $in   = shift;
    my $byte = ord cut($in, 1);
    return $byte if $byte < 0x80;
    return { several($in, 2 * ($byte & 15)) } if $byte < 0x90;
    return [several($in, $byte & 15)] if $byte < 0xa0;
    return text($in, $byte & 31) if $byte < 0xc0;
    return $byte == 0xc3 if $byte < 0xc4;       # or nil
    return $byte - 256 if $byte >= 0xe0;
    my $format = $HEADS{ sprintf '%x', $byte };
    my $size = unpack $format, cut($in, length pack $format, 0);
    return cut($in, $size) if $byte <= 0xc6;    # bin
    return $size if $byte <= 0xd3;              # a number
    return text($in, $size) if $byte <= 0xdb;
    return $byte <= 0xdd ? [several($in, $size)] : { several($in, 2 * $size) };
}

# ---- the channel -------------------------------------------------------------------------------
my ($channel, @fds);    # its descriptor, and those that came by it

sub send_frame {
    my ($op, %fields) = @_;
    my $body = packed({ op => $op, %fields });
    my $rest = pack('N', length $body) . $body;
    while (length $rest) {
        my $done = POSIX::write($channel, $rest, length $rest) // ($!{EINTR} ? 0 : _exit(0));
        substr $rest, 0, $done, '';
    }
}

sub read_bytes {    # undef at the end
    my ($size) = @_;
    my $bytes = '';
    while ($size > length $bytes) {
        my $data    = "\0" x ($size - length $bytes);
        my $control = "\0" x 64;
        my $place   = pack 'PQ', $data, length $data;
        my $message = pack 'QLx4PQPQLx4', 0, 0, $place, 1, $control, length $control, 0;
        my $got     = syscall $RECVMSG, $channel, $message, 0;
        next if $got < 0 && $!{EINTR};
        return undef if $got <= 0;
        $bytes .= substr $data, 0, $got;
        my $filled = unpack 'x40Q', $message;
        push @fds, unpack 'x16l*', substr $control, 0, unpack 'Q', $control if $filled;
    }
    return $bytes;
}

sub receive {
    my $body = read_bytes(unpack 'N', read_bytes(4) // return undef) // return undef;
    return unpacked(\$body);
}

# ---- a worker ----------------------------------------------------------------------------------
{    # what a cell prints
    package Stream;
    sub TIEHANDLE { my ($class, $name) = @_; return bless \$name, $class }
    sub PRINT { my $self = shift; main::send_frame('stream', name => $$self, text => join '', @_) }
    sub PRINTF { my ($self, $format) = splice @_, 0, 2; $self->PRINT(sprintf $format, @_) }
}

sub moment {
    my ($time, @cpu) = (clock_gettime(CLOCK_MONOTONIC), times);
    my @seconds = ($time, $cpu[0] + $cpu[1], $cpu[2] + $cpu[3]);
    return { map { $_ => int(1e9 * shift @seconds) } qw(time_ns cpu_ns children_ns) };
}

sub publish {
    my ($type, $content) = @_;
    send_frame('message', channel => 'iopub', type => $type, content => \$JSON->encode($content),
        metadata => \'{}', buffers => []);
}

sub ask {    # for cells: a line that the user types
    send_frame('input_request', prompt => $_[0], password => JSON::PP::false);
    return (receive() // _exit(0))->{value};
}

sub execute {
    my ($frame, $id, $count) = ($_[0], @{ $_[0] }{qw(id execution_count)});
    local $SIG{INT} = sub { send_frame('interrupted', id => $id); die "interrupted\n" };
    send_frame('started', id => $id, begin => moment());
    my ($value, $error) = do { package Cell; no strict; no warnings; (scalar(eval $frame->{code}), $@) };
    $SIG{INT} = 'IGNORE';
    send_frame('ended', id => $id, end => moment());
    my %what = (ename => 'die', evalue => $error, traceback => [$error]);
    publish('error', \%what) if length $error;
    return { status => 'error', execution_count => $count, %what } if length $error;
    publish('execute_result', { execution_count => $count, metadata => {},
        data => { 'text/plain' => "$value" } })
        if length($value // '') && !$JSON->decode($frame->{content})->{silent};
    return { status => 'ok', execution_count => $count, payload => [], user_expressions => {} };
}

sub answer {
    my ($frame, $type) = ($_[0], $_[0]{type});
    return send_frame('reply', id => $frame->{id}) if $type =~ /^comm_(?!info)/;
    my $content = $type eq 'execute_request' ? execute($frame)
        : { status => 'error', ename => 'die', evalue => "no $type", traceback => [] };
    send_frame('reply', id => $frame->{id}, content => \$JSON->encode($content));
}

sub save {    # nothing; but answer where the cell that waits for it is to run
    my $frame = shift;
    my $mode = $frame->{cell_run} || ($frame->{isolated} ? '' : $frame->{run}) || 'isolated';
    send_frame('reply', id => $frame->{id}, $mode eq 'isolated' ? () : (run => 'in-process'));
}

sub serve {
    $SIG{INT} = 'IGNORE';
    tie *STDOUT, 'Stream', 'stdout';
    tie *STDERR, 'Stream', 'stderr';
    send_frame('ready', version => 1, pid => $$);
    while (my $frame = receive()) {
        my ($op, $id) = @$frame{qw(op id)};
        POSIX::close($_) for splice @fds;
        last if $op eq 'exit';
        answer($frame) if $op eq 'request';
        save($frame) if $op eq 'commit';
        send_frame('protected', id => $id, pid => 0, error => 'no rollback') if $op eq 'protect';
    }
    _exit(0);
}

# ---- the fork server ---------------------------------------------------------------------------
$channel = { @ARGV }->{'--control-fd'};
my %children;
pipe(my $ended, my $wake) or die "pipe: $!";
# A handler that runs at once, so that no end is missed while it waits.
sigaction(SIGCHLD, POSIX::SigAction->new(sub { syswrite $wake, '.' }));
send_frame('ready', version => 1, pid => $$, modules => []);
while (1) {
    my $wanted = '';
    vec($wanted, $_, 1) = 1 for $channel, fileno $ended;
    next if select($wanted, undef, undef, undef) < 0;
    sysread $ended, my $ignored, 4096 if vec $wanted, fileno $ended, 1;
    while ((my $pid = waitpid -1, WNOHANG) > 0) {
        delete $children{$pid};
        send_frame('exited', pid => $pid, status => $?, cpu_seconds => 0, io => \'');
    }
    next if !vec $wanted, $channel, 1;
    my $frame = receive() // last;
    next if $frame->{op} ne 'fork';
    my ($pid, @given) = (fork, splice @fds, 0, 3);
    die "fork: $!" if !defined $pid;
    if (!$pid) {
        sigaction(SIGCHLD, POSIX::SigAction->new('DEFAULT'));
        POSIX::close($_) for $channel, fileno $ended, fileno $wake;
        dup2($given[$_], $_) for 1, 2;
        POSIX::close($_) for @given[1, 2];
        $channel = $given[0];
        serve();
    }
    POSIX::close($_) for @given;
    $children{$pid} = 1;
    send_frame('forked', pid => $pid, role => $frame->{role});
}
kill 'KILL', keys %children;
