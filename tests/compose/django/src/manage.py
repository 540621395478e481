# shop
