<?php
require __DIR__ . '/vendor/autoload.php';
echo "Hello from PHP";
