// SPDX-License-Identifier: Apache-2.0 OR MIT
// Users of chat rooms, as `plumb load --what serve --room` has them: a thread for each connection and direction, as
// VolanoMark's. Chat PORT USERS MESSAGES BYTES: each user sends a message when its last one has come back. Prints how many
// did.

import java.io.DataInputStream;
import java.io.IOException;
import java.net.Socket;
import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.Semaphore;
import java.util.concurrent.atomic.AtomicLong;

public class Chat {
    static void user(int port, long name, int messages, int bytes, AtomicLong back) {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            socket.setTcpNoDelay(true);
            Semaphore returned = new Semaphore(0);
            Thread reader = new Thread(() -> {
                byte[] message = new byte[bytes];
                try {
                    DataInputStream in = new DataInputStream(socket.getInputStream());
                    while (true) {
                        in.readFully(message);
                        if (ByteBuffer.wrap(message).getLong() == name) {
                            back.incrementAndGet();
                            returned.release();
                        }
                    }
                } catch (IOException closed) {
                    // A writer that waits for what does not come any more.
                    returned.release(messages);
                }
            });
            reader.setDaemon(true);
            reader.start();
            byte[] message = ByteBuffer.allocate(bytes).putLong(name).array();
            for (int i = 0; i < messages; i++) {
                socket.getOutputStream().write(message);
                returned.acquire();
            }
        } catch (IOException | InterruptedException failed) {
            System.err.println(failed);
        }
    }

    public static void main(String[] args) throws InterruptedException {
        int port = Integer.parseInt(args[0]), users = Integer.parseInt(args[1]);
        int messages = Integer.parseInt(args[2]), bytes = Integer.parseInt(args[3]);
        AtomicLong back = new AtomicLong();
        List<Thread> all = new ArrayList<>();
        for (int i = 0; i < users; i++) {
            long name = i + 1;
            Thread user = new Thread(() -> user(port, name, messages, bytes, back));
            all.add(user);
            user.start();
        }
        for (Thread user : all) {
            user.join();
        }
        System.out.println(back.get());
    }
}
