-- Bookings between accounts.
CREATE TABLE IF NOT EXISTS bookings (id int);
