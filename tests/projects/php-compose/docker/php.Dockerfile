FROM php:8.3-fpm-alpine
COPY --from=composer:2 /usr/bin/composer /usr/bin/composer
COPY composer.json .
RUN composer install --no-dev
COPY public/ .
