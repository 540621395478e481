import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;

class App {
    public static void main(String[] args) throws Exception {
        HttpServer server = HttpServer.create(new InetSocketAddress(8080), 0);
        server.createContext("/", exchange -> {
            exchange.sendResponseHeaders(200, 0);
            exchange.getResponseBody().write("Hello from Java".getBytes());
            exchange.close();
        });
        server.start();
    }
}
