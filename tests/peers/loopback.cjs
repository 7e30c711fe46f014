// For a server that listens on every interface: make it 127.0.0.1, and say the port. Use: node --require THIS server.js
const net = require("node:net");
const listen = net.Server.prototype.listen;
net.Server.prototype.listen = function (port, ...rest) {
  this.once("listening", () => console.error(`loopback:${this.address().port}`));
  return listen.call(this, Number(port), "127.0.0.1", ...rest.filter((part) => typeof part === "function"));
};
