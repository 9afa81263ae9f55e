<?php
return function ( {
