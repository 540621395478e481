const { createServer } = require("node:http");
const express = require("express");

createServer((request, response) => response.end("Hello from Node")).listen(18413);
