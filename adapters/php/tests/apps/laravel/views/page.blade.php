<p>{{ $who }} {{ $shared ?? 'nobody' }}</p>
