// SPDX-License-Identifier: Apache-2.0 OR MIT
import com.sun.net.httpserver.HttpServer;
import java.net.InetSocketAddress;
import java.util.LinkedList;
import java.util.List;
import java.util.concurrent.Executors;

/** An HTTP server with four threads whose requests have one cause: MODE PORT. */
public class Server {
	static final List<byte[]> kept = new LinkedList<>();
	static final Object monitor = new Object();

	static void collect() {
		synchronized (kept) {
			for (int i = 0; i < 4000; i++) {
				kept.add(new byte[1000 + i % 100]);
				if (kept.size() > 70000) kept.remove(0);
			}
		}
	}

	static void serve(String mode) throws InterruptedException {
		switch (mode) {
			case "collect" -> collect();
			case "monitor" -> { synchronized (monitor) { Thread.sleep(10); } }
			case "sleep" -> Thread.sleep(50);
			default -> { }
		}
	}

	public static void main(String[] words) throws Exception {
		HttpServer server = HttpServer.create(new InetSocketAddress("127.0.0.1", Integer.parseInt(words[1])), 0);
		server.setExecutor(Executors.newFixedThreadPool(4));
		server.createContext("/", x -> {
			try {
				serve(words[0]);
			} catch (InterruptedException e) {
				return;
			}
			byte[] body = "hello".getBytes();
			x.sendResponseHeaders(200, body.length);
			x.getResponseBody().write(body);
			x.close();
		});
		server.start();
	}
}
