<!DOCTYPE html>
<link rel="stylesheet" href="{{ asset('site.css') }}">
<form method="post" action="{{ url('/order') }}">@csrf
@foreach ($errors->all() as $error)<p>{{ $error }}</p>
@endforeach
<input name="name" value="{{ old('name') }}">
</form>
